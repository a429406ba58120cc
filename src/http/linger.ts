import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { errorCodes } from '../domain/errors.ts';
import { maxBodyBytes } from './body.ts';
import { giveBack } from './request-memory.ts';

/**
 * Whether a response has to end the connection because too much of the body may still be in transit. Otherwise Node
 * reads and discards the rest, however long, to reuse the connection.
 */
export function endsConnection(status: number, req: IncomingMessage): boolean {
  if (status === errorCodes.PAYLOAD_TOO_LARGE.status) return true; // reading stopped within the body
  const { complete, headers } = req;
  if (complete) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBodyBytes;
}

const lingerBytes = 16 * maxBodyBytes;
const lingerMs = 5_000;
const lingerPauseMs = 20;

/**
 * Makes a response that ends the connection use a lingering close (RFC 9112, section 9.6): what the client still sends
 * is discarded for a while. Closing at once would reset the connection, and the client could lose the response.
 */
export function linger(req: IncomingMessage): void {
  const { socket } = req;
  // Node calls this when the response has been written.
  socket.destroySoon = () => {
    socket.end();
    if (req.complete) socket.destroy();
    else discard(socket);
  };
}

/** Discards for a while what arrives on an ended connection, then destroys it. */
export function discard(socket: Duplex): void {
  const hangUp = (): void => void socket.destroy();
  const timer = setTimeout(hangUp, lingerMs);
  socket.once('close', () => clearTimeout(timer));
  let left = lingerBytes;
  // Nothing of it is parsed: of a body in chunks of a byte, that would take a hundred times as long as to read it. Node's
  // parser has to be reading when it is taken off: nobody would begin again.
  const take = (): void => {
    if (socket.isPaused()) return; // others come first
    socket.off('resume', take);
    socket.removeAllListeners('data');
    socket.on('data', (bytes: Buffer) => {
      left -= bytes.length;
      giveBack(bytes);
      if (left < 0) hangUp();
      socket.pause();
      setTimeout(() => socket.resume(), lingerPauseMs); // what others send comes first
    });
  };
  socket.on('resume', take);
  socket.pause().resume();
  socket.once('end', hangUp);
}

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { DomainError, errorCodes } from '../domain/errors.ts';
import { protocolFault } from './protocol.ts';

const maxBodyBytes = 1024 * 1024;

/** Whether the headers announce a body. A chunked one can still turn out to be empty. */
export function announcesBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || (headers['content-length'] ?? '0') !== '0';
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/**
 * Reads a JSON body, counting bytes as they arrive, so that a body without a Content-Length is bounded, too. It listens
 * to the request directly: Yoga's own limit would pipe each body through a stream.
 * @returns undefined when there is no body
 * @throws UNSUPPORTED_MEDIA_TYPE, PAYLOAD_TOO_LARGE, BAD_REQUEST
 */
export async function readJson(req: IncomingMessage): Promise<unknown> {
  const declared = req.headers['content-length'];
  if (declared !== undefined && Number(declared) > maxBodyBytes) throw tooLarge();
  if (!announcesBody(req)) return undefined;
  const chunked = req.headers['transfer-encoding'] !== undefined;
  if (!chunked) requireJson(req);
  const bytes = await readBytes(req);
  if (bytes.length === 0) return undefined;
  // Only now is it known that a chunked body is not empty, and so needs a type.
  if (chunked) requireJson(req);
  return parseJson(bytes);
}

/**
 * Whether a response has to end the connection because too much of the body may still be in transit. Otherwise Node
 * reads and discards the rest, however long, to reuse the connection.
 */
export function endsConnection(status: number, req: IncomingMessage): boolean {
  if (status === errorCodes.PAYLOAD_TOO_LARGE.status) return true; // reading stopped within the body
  if (protocolFault(req) !== undefined) return true; // what follows cannot be trusted
  const { complete, headers } = req;
  if (complete) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > maxBodyBytes;
}

const lingerBytes = 16 * maxBodyBytes;
const lingerMs = 5_000;

/**
 * Makes a response that ends the connection use a lingering close (RFC 9112, section 9.6): what the client still sends
 * is discarded for a while. Closing at once would reset the connection, and the client could lose the response.
 */
export function linger(req: IncomingMessage): void {
  const { socket } = req;
  // Node calls this when the response has been written.
  socket.destroySoon = () => {
    socket.end();
    discard(socket, req);
  };
}

/** Discards for a while what arrives on an ended connection, then destroys it. */
export function discard(socket: Socket, source: Readable): void {
  const hangUp = (): void => void socket.destroy();
  const timer = setTimeout(hangUp, lingerMs);
  socket.once('close', () => clearTimeout(timer));
  let left = lingerBytes;
  source.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) hangUp();
  });
  if (source.readableEnded) hangUp();
  else source.once('end', hangUp).resume();
}

function requireJson({ headers }: IncomingMessage): void {
  const type = headers['content-type'];
  if (type === undefined || !/^application\/json[ \t]*(;.*)?$/i.test(type)) {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as `Content-Type: application/json`.');
  }
  const charset = /;[ \t]*charset *= *"?([^";]*)/i.exec(type)?.[1];
  if (charset !== undefined && !/^utf-?8 *$/i.test(charset)) {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body in UTF-8.');
  }
  const { 'content-encoding': encoding = 'identity', 'transfer-encoding': transfer = 'chunked' } = headers;
  if (encoding.toLowerCase() !== 'identity' || transfer.toLowerCase() !== 'chunked') {
    throw new DomainError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as it is, neither compressed nor encoded.');
  }
}

function readBytes(req: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (req.destroyed) {
      // The client disconnected before admission: no further event will come.
      reject(cutOff(undefined));
      return;
    }
    let chunks: Buffer[] = [];
    let size = 0;
    req.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= maxBodyBytes) {
        chunks.push(chunk);
      } else {
        chunks = []; // a client reads no response while sending, so the rest is read and discarded
        reject(tooLarge());
      }
    });
    let ended = false;
    req.on('end', () => {
      ended = true;
      resolve(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks));
      chunks = []; // the request keeps its listeners, perhaps for as long as a stream lasts
    });
    req.on('error', (cause) => reject(cutOff(cause)));
    req.on('close', () => {
      if (!ended) reject(cutOff(undefined));
    });
  });
}

function parseJson(bytes: Buffer): unknown {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch (cause) {
    throw new DomainError('BAD_REQUEST', 'The body is not valid UTF-8.', { cause });
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    // The cause quotes the body, which may contain data that must not be logged.
    throw new DomainError('BAD_REQUEST', `The body is not JSON${positionOf(cause)}.`);
  }
}

function positionOf(error: unknown): string {
  const position = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined;
  return position === undefined ? '' : ` (at position ${position})`;
}

function tooLarge(): DomainError {
  return new DomainError('PAYLOAD_TOO_LARGE', 'A body may have at most 1 MiB.');
}

function cutOff(cause: unknown): DomainError {
  return new DomainError('BAD_REQUEST', 'The body ended before it was complete.', { cause });
}

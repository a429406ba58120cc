import { once } from 'node:events';
import { isIP, Socket } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import { isDisconnection } from './errors.ts';

/** What asks for encryption: its length, and the number of this request. */
const request = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);
const granted = 'S';

/** How the connections of a URL are encrypted. */
export interface Encryption {
  /** `sslmode`: `prefer`, `require`, or `verify-full`, with which a certificate has to be that of `host`. */
  readonly mode: string;
  /** The name or address of the server. */
  readonly host: string;
}

/** @returns undefined for a URL that asks for none */
export function encryptionOf(url: string): Encryption | undefined {
  const { hostname, searchParams } = new URL(url);
  const mode = searchParams.get('sslmode');
  if (mode === null || mode === 'disable') return undefined;
  return { mode, host: hostname.replace(/^\[(.*)\]$/, '$1') };
}

/**
 * Encrypts a connection that has just begun, if the server does that. The driver would not tell the server for which name
 * it looks, would take the certificate of `localhost` for that of any address, and takes all listeners away from a socket
 * that has closed: a write that failed later would end the process.
 * @returns the socket to go on with: if that failed, one that closes with the reason, as one that is not encrypted would
 */
export async function encrypted(socket: Socket, { mode, host }: Encryption, timeoutMs: number): Promise<Socket> {
  const signal = AbortSignal.timeout(timeoutMs);
  try {
    socket.write(request);
    const [answer] = (await once(socket, 'data', { signal })) as [Buffer];
    // Whatever follows was put there by somebody else.
    if (answer.toString('latin1') !== granted) {
      if (mode === 'prefer' && answer.toString('latin1') === 'N') return socket;
      throw new Error('The server of PostgreSQL does not encrypt connections, which sslmode asks for.');
    }
    const names = { host, ...(isIP(host) === 0 && { servername: host }) };
    const { writableHighWaterMark: highWaterMark } = socket; // which the types of options leave out
    const options = { socket, ...names, highWaterMark, rejectUnauthorized: mode === 'verify-full' };
    const secured = connect(options);
    socket.on('error', () => {}); // it closes, and the other with it
    await once(secured, 'secureConnect', { signal });
    return withLastListener(secured);
  } catch (error) {
    socket.destroy(); // perhaps it has closed already
    if (signal.aborted) return new Socket().destroy(new Unanswered());
    return new Socket().destroy(isDisconnection(error) ? (error as Error) : new Unencrypted(error as Error));
  }
}

/** As with a certificate that has expired: whoever operates the server can change that while the service runs. */
class Unencrypted extends Error {
  readonly code = 'CONNECT_TLS';

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

class Unanswered extends Error {
  readonly code = 'ETIMEDOUT';

  constructor() {
    super('The server of PostgreSQL does not answer');
  }
}

function withLastListener(socket: TLSSocket): TLSSocket {
  const removeAll = socket.removeAllListeners.bind(socket);
  socket.removeAllListeners = (...names: [name?: string | symbol]) => removeAll(...names).on('error', () => {});
  return socket;
}

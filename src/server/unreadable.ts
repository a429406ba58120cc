import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { DomainError } from '../domain/errors.ts';
import { discard } from '../http/linger.ts';
import { problemReply } from '../http/problem.ts';
import { writeRawReply } from '../http/raw-reply.ts';
import { requestIdOf } from '../http/request-context.ts';
import type { RequestLog } from '../http/request-log.ts';
import { type Connections, tooManyRequests } from './connections.ts';

/** Node's parser error codes, and CONNECT, and the errors we answer; any other HPE_ code is one generic error. */
const parserErrors: Readonly<Record<string, () => DomainError>> = {
  HPE_HEADER_OVERFLOW: () => new DomainError('BAD_REQUEST', 'The request headers are too large.', { status: 431 }),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: () => new DomainError('PAYLOAD_TOO_LARGE', 'The extensions of a chunk are too large.'),
  [tooManyRequests]: () =>
    new DomainError('UNAVAILABLE', 'Too many requests are arriving at once.', { retryAfterSeconds: 1 }),
  CONNECT: () => new DomainError('METHOD_NOT_ALLOWED', 'The service is no proxy.', { allow: [] }),
  ERR_HTTP_REQUEST_TIMEOUT: () =>
    new DomainError('BAD_REQUEST', 'The request did not arrive in time.', { status: 408 }),
};

interface Logs {
  readonly log: Logger;
  readonly requestLog: RequestLog;
}

function faultOf(code: string): DomainError | undefined {
  if (parserErrors[code] !== undefined) return parserErrors[code]();
  return code.startsWith('HPE_') ? new DomainError('BAD_REQUEST', 'The request is not valid HTTP.') : undefined;
}

/**
 * Answers what Node cannot parse as a request, or makes no response for, like any other error, with a code and a request
 * id. Anybody can send garbage, so it is logged at the level of requests and not as a warning.
 */
export function refuseUnreadable(server: Server, connections: Connections, { log, requestLog }: Logs): void {
  const refused = new WeakSet<Socket>();

  function refuse(socket: Socket, reason: string, isLate = false): void {
    const due = connections.answersOn(socket);
    // The request that timed out has arrived completely in the meantime, and is being answered.
    if (isLate && reason === 'ERR_HTTP_REQUEST_TIMEOUT' && due.every(({ req }) => req.complete)) {
      refused.delete(socket);
      return;
    }
    // Complete requests before it are answered first: the client would take the refusal for their response.
    const whole = due.find(({ req }) => req.complete);
    if (whole !== undefined) {
      whole.once('close', () => refuse(socket, reason, true));
      return;
    }
    const fault = faultOf(reason);
    if (fault === undefined || !socket.writable || due.some(({ headersSent }) => headersSent)) {
      socket.destroy();
      return;
    }
    const requestId = requestIdOf(due[0]?.req.headers['x-request-id']);
    writeRawReply(socket, requestId, problemReply(fault, { requestId }));
    socket.removeAllListeners('data'); // otherwise Node would go on parsing and run the refused request
    if (reason === tooManyRequests)
      socket.destroySoon(); // what it takes is wanted for others
    else if (!socket.readableEnded) discard(socket);
    if (!requestLog.hasRoom(fault.status)) return;
    log.info({ requestId, status: fault.status, reason }, 'unreadable request refused');
  }

  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Whatever follows on the same connection raises further errors.
    if (refused.has(socket as Socket)) return;
    refused.add(socket as Socket);
    refuse(socket as Socket, error.code ?? '');
  });
  server.on('connect', (_, socket: Socket) => {
    // Node has handed the connection over, and handles neither its errors nor its timeouts: nothing may be waited for on it.
    if (connections.isBusy(socket)) socket.destroy();
    else refuse(socket, 'CONNECT');
  });
}

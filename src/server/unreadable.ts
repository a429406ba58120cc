import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { answerBare } from '../access/bare.ts';
import { discard } from '../access/body.ts';
import { requestIdOf } from '../access/exchange.ts';
import { DomainError } from '../domain/errors.ts';
import { problemReply } from '../rest/problem.ts';
import type { Connections } from './connections.ts';

/** What Node calls the faults of what it cannot read on, as they are told; all others of its parser are one. */
const known: Readonly<Record<string, () => DomainError>> = {
  HPE_HEADER_OVERFLOW: () => new DomainError('BAD_REQUEST', 'The head of the request is too large.', { status: 431 }),
  HPE_CHUNK_EXTENSIONS_OVERFLOW: () => new DomainError('PAYLOAD_TOO_LARGE', 'A chunk has too large extensions.'),
  ERR_HTTP_REQUEST_TIMEOUT: () => new DomainError('BAD_REQUEST', 'The request took too long to come.', { status: 408 }),
};

function faultOf(code: string): DomainError | undefined {
  if (known[code] !== undefined) return known[code]();
  return code.startsWith('HPE_') ? new DomainError('BAD_REQUEST', 'This is not HTTP that can be read.') : undefined;
}

/**
 * Answers what Node cannot read as a request, as every answer is: with a code and a request id. Anybody can send it,
 * so the log has it beside the requests and not among what went wrong.
 */
export function refuseUnreadable(server: Server, connections: Connections, log: Logger): void {
  const refused = new WeakSet<Socket>();

  function refuse(socket: Socket, reason: string, isLate = false): void {
    const due = connections.answersOn(socket);
    // What took too long has come in the meantime, as a whole, and is answered.
    if (isLate && reason === 'ERR_HTTP_REQUEST_TIMEOUT' && due.every(({ req }) => req.complete)) {
      refused.delete(socket);
      return;
    }
    // What was read as a whole before is answered first: it would take the refusal for its own answer.
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
    answerBare(socket, requestId, problemReply(fault, { requestId }));
    socket.removeAllListeners('data'); // Node would read on, and have done what was refused
    if (!socket.readableEnded) discard(socket, socket);
    log.info({ requestId, status: fault.status, reason }, 'unreadable request refused');
  }

  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Whatever comes after it on the same connection is another such error.
    if (refused.has(socket as Socket)) return;
    refused.add(socket as Socket);
    refuse(socket as Socket, error.code ?? '');
  });
}

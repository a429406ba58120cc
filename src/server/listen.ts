import { createServer, type Server } from 'node:net';
import { OperatorError } from './operator-error.ts';

/**
 * How many connections wait in the system to be accepted. It drops what comes beyond, and their clients try again after
 * one second, then after two and four, behind all who come meanwhile: Node's default, 511, is soon full where thousands
 * connect at once. The system has a limit, too: `net.core.somaxconn`, 4,096 by default on Linux.
 */
const backlog = 4_096;

interface Address {
  readonly host: string;
  readonly port: number;
}

/** @throws OperatorError if the server cannot listen there */
export function listen(server: Server, { host, port }: Address, reusePort = false): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(listenError(error, { host, port }));
    server.once('error', onError);
    server.listen({ host, port, reusePort, backlog }, () => {
      server.off('error', onError);
      resolve();
    });
  });
}

/** @throws OperatorError if nobody could listen there */
export async function requireFree(address: Address): Promise<void> {
  const server = createServer();
  await listen(server, address);
  await new Promise((resolve) => server.close(resolve));
}

/**
 * Explains why the server could not listen.
 * @returns the error itself if the operator cannot fix it
 */
function listenError(error: Error, { host, port }: Address): Error {
  const code = 'code' in error ? error.code : undefined;
  switch (code) {
    case 'EADDRINUSE':
      return new OperatorError(`Port ${port} is already in use; set PORT to another one.`, error);
    case 'EACCES':
      return new OperatorError(`This user may not listen on port ${port}; set PORT to another one.`, error);
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new OperatorError(`HOST is ${host}, which is not an address of this machine.`, error);
    case 'ENOTSUP':
      return new OperatorError('This system cannot share a port among processes; set WORKERS to 1.', error);
    default:
      return error;
  }
}

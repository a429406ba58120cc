import { createServer, type Server } from 'node:net';
import { OperatorError } from './operator-error.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

/** @throws OperatorError if the server cannot listen there */
export function listen(server: Server, { host, port }: Address, reusePort = false): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(listenError(error, { host, port }));
    server.once('error', onError);
    server.listen({ host, port, reusePort }, () => {
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
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new OperatorError(`HOST is ${host}, which is not an address of this machine.`, error);
    case 'ENOTSUP':
      return new OperatorError('This system cannot share a port among processes; set WORKERS to 1.', error);
    default:
      return error;
  }
}

import postgres from 'postgres';
import { unavailable } from '../errors.ts';

// What the errors of PostgreSQL and of its connections mean.

/** The transaction has to give way to another: the same again may succeed. */
export function isConflict(error: unknown): boolean {
  if (error instanceof LostUpdate || isUseless(error)) return true;
  return error instanceof postgres.PostgresError && (error.code === '40001' || error.code === '40P01');
}

/**
 * What this connection has prepared cannot be used any more: a table was changed that it reads, or a proxy has put another
 * connection in its place. The same on a new connection may succeed.
 */
export function isUseless(error: unknown): boolean {
  if (!(error instanceof postgres.PostgresError)) return false;
  return error.code === '26000' || error.code === '42P05' || error.routine === 'RevalidateCachedQuery';
}

/** Codes, or classes of them, that may be temporary: nothing is wrong with the request, and a later one may succeed. */
const temporary = [
  '08', // the connection
  '40001', // given way to others too often
  '40P01',
  '28', // a user or a password that is not let in, as while these are changed
  '3D000', // a database that is not there, as while another takes its place
  '25006', // a replica, which became the primary or is about to
  '25P03', // idle in a transaction for too long
  '25P04', // a transaction that took too long
  '53', // memory, the disk, connections
  '55000', // a database that takes no connections, as during maintenance
  '55P03', // a lock that was not free in time
  '57', // shutting down, starting, or a statement that took too long
  '58', // the system
];

/** Whether a lock was not free in time. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '55P03';
}

/** Whether a statement was refused because one before it in its transaction had failed. */
export function isInFailed(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '25P02';
}

/** How the client names what happened to a connection; Node's own codes for that are the others. */
const ofConnections = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_ENDED',
  'CONNECTION_DESTROYED',
  'CONNECT_TIMEOUT',
  'CONNECT_TLS',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ENOENT',
  'EACCES',
  'ECONNABORTED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  // Of this machine: it has no port, descriptor or memory left for a connection.
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENFILE',
  'ENOBUFS',
  'ENOMEM',
]);

/** Whether a connection was lost, or there was none: also that of a proxy, which answers with the class 08 then. */
export function isDisconnection(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && (ofConnections.has(code) || code.startsWith('57P0') || code.startsWith('08'));
}

/** Maps what the client throws to the domain: UNAVAILABLE for what may be temporary, anything else as it is. */
export function asDomainError(error: unknown): unknown {
  const isTemporary =
    isDisconnection(error) ||
    (error instanceof postgres.PostgresError && temporary.some((code) => error.code.startsWith(code)));
  return isTemporary ? unavailable('The storage cannot be written or read at the moment.', error) : error;
}

/**
 * Another transaction has changed a conversation between the reading and the writing of it. That can only happen where
 * the account's row is not locked first, and repeating the work helps.
 */
export class LostUpdate extends Error {
  constructor() {
    super('Lost an update of a conversation');
  }
}

/** What a statement fails with on purpose, where a condition does not hold. */
export function isDivisionByZero(error: unknown): boolean {
  return error instanceof postgres.PostgresError && error.code === '22012';
}

import { bindingOf, type Caller } from './caller.ts';
import { DomainError, validationFailed } from './errors.ts';
import type { Ports } from './ports.ts';
import type { Reads } from './storage-port.ts';

/**
 * Encodes a position in an account's log. Opaque to clients, it holds the log's epoch and the last sequence before it.
 */
export function eventCursor(epoch: string, sequence: number): string {
  return Buffer.from(`${epoch}.${sequence}`).toString('base64url');
}

const exampleEpoch = '5e0c1a7f';
export const exampleEventCursor = eventCursor(exampleEpoch, 1041);
/** The cursor of the event before the one in `exampleEventCursor`. */
export const exampleStartCursor = eventCursor(exampleEpoch, 1040);

/** A position in an event log: just after the event with this sequence. */
export interface LogPosition {
  readonly epoch: string;
  readonly sequence: number;
}

/** A position in no log, in place of one that cannot be parsed: no log has an empty epoch. */
const nowhere: LogPosition = { epoch: '', sequence: 0 };

/** More than any cursor has, in either form. One request can give a hundred of them, and each is decoded. */
const maxLength = 200;

/** @returns undefined for anything but a cursor made by `eventCursor` */
function parseEventCursor(cursor: string): LogPosition | undefined {
  if (cursor.length > maxLength) return undefined;
  const match = /^([0-9a-f]+)\.(\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString());
  if (match?.[1] === undefined) return undefined;
  const position = { epoch: match[1], sequence: Number(match[2]) };
  // The decoder skips characters outside base64url, so only an exact round trip proves a cursor of this service.
  return eventCursor(position.epoch, position.sequence) === cursor ? position : undefined;
}

/** The form in which a caller is given cursors, and gives them back. */
export interface CursorForm {
  show(cursor: string): string;
  /** @throws VALIDATION_FAILED for text that is not a cursor in this form */
  read(given: string): LogPosition;
}

const plainForm: CursorForm = { show: (cursor) => cursor, read: (given) => parseEventCursor(given) ?? refuse() };

/** A bound caller is given encrypted cursors, which are good for all tokens that are bound to the same. */
export async function cursorFormOf({
  caller,
  cursorSeal,
}: Pick<Ports, 'cursorSeal'> & { readonly caller: Caller }): Promise<CursorForm> {
  const boundTo = bindingOf(caller);
  if (boundTo === undefined) return plainForm;
  const seal = await cursorSeal();
  const binding = `${caller.account.id} ${boundTo}`;
  return {
    show: (cursor) => seal.seal(cursor, binding),
    read: (given) => parseEventCursor(seal.open(given, binding) ?? '') ?? refuse(),
  };
}

/** What is wrong with a text that is no cursor. */
export const notACursor = 'is not a cursor of the event log';

/** Encrypted cursors are longer than others. */
const encryptedForm = /^[\w-]{80,200}$/;

/** Whether a text could be a cursor in either form. Only with its caller is it known whether it is one. */
export function mayBeCursor(text: string): boolean {
  return isEventCursor(text) || encryptedForm.test(text);
}

function refuse(): never {
  throw validationFailed([{ path: ['after'], detail: notACursor }]);
}

/** Whether a text is a cursor of an event log, of this one or any other. */
export function isEventCursor(text: string): boolean {
  return parseEventCursor(text) !== undefined;
}

/**
 * The sequence of the last event before a cursor.
 * @throws CURSOR_EXPIRED, also for text that is not a cursor
 */
export async function sequenceAt(
  { events: log }: Pick<Reads, 'events'>,
  accountId: string,
  cursor: string,
): Promise<number> {
  const position = parseEventCursor(cursor) ?? nowhere;
  refuseExpired(position, { epoch: await log.epoch(), ...(await log.bounds(accountId)) });
  return position.sequence;
}

/**
 * Makes sure that reading can continue from a position without a gap.
 * @throws CURSOR_EXPIRED, with the oldest usable cursor, when the position lies before the log's first event, beyond
 * its last one or in another log
 */
export function refuseExpired(
  position: LogPosition,
  log: { epoch: string; first: number; last: number },
  { show }: Pick<CursorForm, 'show'> = plainForm,
): void {
  if (position.epoch === log.epoch && position.sequence >= log.first - 1 && position.sequence <= log.last) return;
  throw cursorExpired(show(eventCursor(log.epoch, log.first - 1)));
}

export function cursorExpired(oldestCursor: string): DomainError {
  return new DomainError(
    'CURSOR_EXPIRED',
    'The event log no longer reaches back to this cursor; read what you need from the resources and continue from `oldestCursor`.',
    { oldestCursor },
  );
}

/** The end of the account's log; within a transaction it includes the events appended there. */
export async function currentEventCursor(
  reads: Pick<Reads, 'accounts' | 'events'>,
  accountId: string,
): Promise<string> {
  const { eventSequence } = await reads.accounts.totals(accountId);
  return eventCursor(await reads.events.epoch(), eventSequence);
}

import { Room } from '../runtime/room.ts';
import { noRoom } from './no-room.ts';

const mebibyte = 1024 * 1024;
/** What may be held in memory for answers that are being made, on all faces. */
const room = new Room({ size: 128 * mebibyte, sizeOfAccount: 16 * mebibyte, waitingOfAccount: 256 });

/**
 * Waits until there is room for an answer.
 * @param bytes what it can hold at most
 * @returns what is to be called when it has been made
 * @throws UNAVAILABLE when too many of the account wait
 */
export async function enterAnswerRoom(accountId: string, bytes: number): Promise<() => void> {
  const leave = await room.enter(accountId, bytes);
  if (leave === undefined) throw noRoom('Too many large answers of the account are waiting; send this request again.');
  return leave;
}

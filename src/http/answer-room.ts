import { type Holder, memoryOwner } from '../access/memory-owner.ts';
import { Room } from '../runtime/room.ts';
import { noRoom } from './no-room.ts';

const mebibyte = 1024 * 1024;
/** What may be held in memory for answers that are being made, on all faces. */
const room = new Room({ size: 128 * mebibyte, sizeOfAccount: 16 * mebibyte, waitingOfAccount: 256 });

/**
 * Waits until there is room for an answer.
 * @param bytes what it can hold at most
 * @returns what is to be called when it has been made
 * @throws UNAVAILABLE when too many of the account, or of its bound tokens, wait
 */
export async function enterAnswerRoom(caller: Holder, bytes: number): Promise<() => void> {
  const leave = await room.enter(memoryOwner(caller).name, bytes);
  if (leave === undefined) throw noRoom('Too many large answers of the account are waiting; send this request again.');
  return leave;
}

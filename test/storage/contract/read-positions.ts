import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { maxReadPositions, type ReadPosition } from '../../../src/domain/read-position-record.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { sampleConversation, startMs, storedAccount } from '../../support/samples.ts';
import type { OpenedStorage } from './opened.ts';

const at = (sequence: number, reader: string, ms = sequence): ReadPosition => ({
  reader,
  sequence,
  readAt: timestamp(startMs + ms),
});

/** What every storage promises of read positions: a part of `storageContract`. */
export function readPositionsContract(open: () => Promise<OpenedStorage>): void {
  describe('read positions', () => {
    async function stored(storage: Storage, messageCount = 100) {
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation({ messageCount });
      await storage.write(async (tx) => await tx.conversations.insert(accountId, conversation));
      const move = (position: ReadPosition) =>
        storage.write(async (tx) => await tx.readPositions.move(accountId, conversation, position), accountId);
      const all = async () => (await storage.read.readPositions.ofConversations(accountId, [conversation.id]))[0];
      return { accountId, conversation, move, all };
    }

    test('move forward only, and tell whether they moved', async () => {
      const { storage } = await open();
      const { accountId, conversation, move, all } = await stored(storage);
      expect(await move(at(5, 'a'))).toEqual({ position: at(5, 'a'), hasMoved: true });
      expect(await move(at(5, 'a', 9))).toEqual({ position: at(5, 'a'), hasMoved: false });
      expect(await move(at(4, 'a'))).toEqual({ position: at(5, 'a'), hasMoved: false });
      expect(await move(at(0, 'A'))).toEqual({ position: at(0, 'A'), hasMoved: true });
      expect(await move(at(6, 'a'))).toEqual({ position: at(6, 'a'), hasMoved: true });
      expect(await all()).toEqual({ positions: [at(0, 'A'), at(6, 'a')], moves: 3 });
      const asked = ['a', 'b', 'A'].map((reader) => ({ conversationId: conversation.id, reader }));
      expect(await storage.read.readPositions.ofReaders(accountId, asked)).toEqual([at(6, 'a'), undefined, at(0, 'A')]);
    });

    test(`are ${maxReadPositions} in a conversation: the one that has not moved for longest gives way`, async () => {
      const { storage } = await open();
      const step = fc.tuple(fc.nat(maxReadPositions + 20), fc.nat(100));
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 120, maxLength: 120 }), async (moves) => {
          const { move, all } = await stored(storage);
          const known = new Map<string, ReadPosition>(); // by when they moved, the longest ago first
          for (const [reader, sequence] of moves) {
            const position = at(sequence, `reader-${reader}`, 0);
            const before = known.get(position.reader);
            await move(position);
            if (before !== undefined && before.sequence >= sequence) continue;
            const [first = ''] = known.keys();
            if (before === undefined && known.size === maxReadPositions) known.delete(first);
            known.delete(position.reader);
            known.set(position.reader, position);
          }
          const expected = [...known.values()].sort((a, b) => (a.reader < b.reader ? -1 : 1));
          expect((await all())?.positions).toEqual(expected);
        }),
        { numRuns: 5 },
      );
    });

    test('of many conversations come in the order of their ids, and none of what is unknown, erased or another account’s', async () => {
      const { storage } = await open();
      const one = await stored(storage);
      const other = await stored(storage);
      await one.move(at(1, 'a'));
      await one.move(at(2, 'b'));
      await other.move(at(3, 'c'));
      const none = { positions: [], moves: 0 };
      const { readPositions } = storage.read;
      const both = [other.conversation.id, one.conversation.id, 'conv_x'];
      expect(await readPositions.ofConversations(one.accountId, both)).toEqual([
        none,
        { positions: [at(1, 'a'), at(2, 'b')], moves: 2 },
        none,
      ]);
      const asked = [{ conversationId: other.conversation.id, reader: 'c' }];
      expect(await readPositions.ofReaders(one.accountId, asked)).toEqual([undefined]);
      await storage.write(async (tx) => await tx.conversations.erase(one.accountId, one.conversation));
      expect(await readPositions.ofConversations(one.accountId, both)).toEqual([none, none, none]);
    });
  });
}

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../../src/domain/conversation-record.ts';
import { conversationSorts } from '../../../src/domain/conversations.ts';
import { maxReadPositions, type ReadPosition } from '../../../src/domain/read-position-record.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import { sampleConversation, startMs, storedAccount } from '../../support/samples.ts';
import type { OpenedStorage } from './opened.ts';

const at = (sequence: number, reader: string, ms = sequence): ReadPosition => ({
  reader,
  sequence,
  readAt: timestamp(startMs + ms),
});

const readers = ['a', 'b', 'c'];

const step = fc.record({
  kind: fc.constantFrom('insert', 'send', 'send', 'move', 'move', 'erase'),
  which: fc.nat(),
  reader: fc.constantFrom(...readers),
  part: fc.nat(3),
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
      const { move, all } = await stored(storage);
      expect(await move(at(5, 'a'))).toEqual({ position: at(5, 'a'), hasMoved: true });
      expect(await move(at(5, 'a', 9))).toEqual({ position: at(5, 'a'), hasMoved: false });
      expect(await move(at(4, 'a'))).toEqual({ position: at(5, 'a'), hasMoved: false });
      expect(await move(at(0, 'A'))).toEqual({ position: at(0, 'A'), hasMoved: true });
      expect(await move(at(6, 'a'))).toEqual({ position: at(6, 'a'), hasMoved: true });
      expect(await all()).toEqual({ positions: [at(0, 'A'), at(6, 'a')], moves: 3 });
    });

    test(`are ${maxReadPositions} in a conversation: the one that has not moved for longest gives way`, async () => {
      const { storage } = await open();
      const moving = fc.tuple(fc.nat(maxReadPositions + 20), fc.nat(100));
      await fc.assert(
        fc.asyncProperty(fc.array(moving, { minLength: 120, maxLength: 120 }), async (moves) => {
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
        { numRuns: effort(2, 5) },
      );
    });

    test('of who writes move to the last message, as if they had been moved there', async () => {
      const { storage } = await open();
      const step = fc.tuple(fc.boolean(), fc.nat(maxReadPositions + 20));
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 100, maxLength: 100 }), async (steps) => {
          const [own, moved] = [await stored(storage), await stored(storage)];
          for (const [index, [isOwn, number]] of steps.entries()) {
            const position = at(index + 1, `reader-${number}`, 0);
            await moved.move(position);
            if (isOwn) {
              const conversation = { ...own.conversation, messageCount: position.sequence };
              const { reader, readAt } = position;
              await storage.write(
                async (tx) => await tx.readPositions.moveToEnd(own.accountId, conversation, reader, readAt),
                own.accountId,
              );
            } else {
              await own.move(position);
            }
          }
          expect(await own.all()).toEqual(await moved.all());
        }),
        { numRuns: effort(1, 3) },
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
      await storage.write(async (tx) => await tx.conversations.erase(one.accountId, one.conversation));
      expect(await readPositions.ofConversations(one.accountId, both)).toEqual([none, none, none]);
    });

    test('tell which conversations are unread by whom, in every order, whatever moves and whatever is sent, changed or erased', async () => {
      const { storage } = await open();
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 60 }), async (steps) => {
          const { id: accountId } = await storedAccount(storage);
          const conversations = new Map<string, StoredConversation>();
          const read = new Map<string, Map<string, number>>();
          let now = 0;
          for (const { kind, which, reader, part } of steps) {
            now += 1_000;
            const previous = [...conversations.values()][which % Math.max(1, conversations.size)];
            if (kind === 'insert' || previous === undefined) {
              const inserted = sampleConversation({ messageCount: part }, startMs + now);
              await storage.write(async (tx) => await tx.conversations.insert(accountId, inserted));
              conversations.set(inserted.id, inserted);
              read.set(inserted.id, new Map());
            } else if (kind === 'erase') {
              await storage.write(async (tx) => await tx.conversations.erase(accountId, previous));
              conversations.delete(previous.id);
            } else if (kind === 'send') {
              const next = {
                ...previous,
                messageCount: previous.messageCount + 1,
                lastActivityAt: timestamp(startMs + now),
                version: previous.version + 1,
              };
              await storage.write(async (tx) => {
                const position = at(next.messageCount, reader);
                if (part % 2 === 0) await tx.readPositions.move(accountId, next, position);
                else await tx.readPositions.moveToEnd(accountId, next, reader, position.readAt);
                await tx.conversations.update(accountId, previous, next);
              });
              conversations.set(next.id, next);
              read.get(next.id)?.set(reader, next.messageCount);
            } else {
              const sequence = Math.min(part, previous.messageCount);
              await storage.write(async (tx) => await tx.readPositions.move(accountId, previous, at(sequence, reader)));
              const own = read.get(previous.id);
              own?.set(reader, Math.max(own.get(reader) ?? 0, sequence));
            }
          }
          for (const unreadBy of readers) {
            const unread = [...conversations.values()].filter(
              ({ id, messageCount }) => (read.get(id)?.get(unreadBy) ?? messageCount) < messageCount,
            );
            const byId = unread.toSorted((a, b) => (a.id < b.id ? -1 : 1));
            const byActivity = byId.toSorted((a, b) => Date.parse(a.lastActivityAt) - Date.parse(b.lastActivityAt));
            for (const sort of conversationSorts) {
              const ascending = sort.endsWith('createdAt') ? byId : byActivity;
              const expected = sort.startsWith('-') ? ascending.toReversed() : ascending;
              const query = { filter: { unreadBy }, sort, limit: 100, offset: 0 };
              const { items } = await storage.read.conversations.page(accountId, query);
              expect(items.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
            }
            expect(await storage.read.conversations.count(accountId, { unreadBy })).toBe(unread.length);
          }
        }),
        { numRuns: effort(4, 20) },
      );
    });
  });
}

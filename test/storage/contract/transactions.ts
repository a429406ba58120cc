import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../../src/domain/conversation-record.ts';
import { DomainError } from '../../../src/domain/errors.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { effort } from '../../support/effort.ts';
import {
  awkwardText,
  sampleAccount,
  sampleConversation,
  sampleEvent,
  sampleMessage,
  storedAccount,
} from '../../support/samples.ts';
import { wholeConversation } from '../../support/whole-conversation.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of what is written together, and what is read meanwhile: a part of `storageContract`. */
export function transactionsContract(open: () => Promise<OpenedStorage>): void {
  describe('a unit of work', () => {
    test('is stored when its promise resolves, also after reopening', async () => {
      const { storage, reopen } = await open();
      const account = sampleAccount();
      const conversation = sampleConversation();
      const message = sampleMessage(conversation.id, 1);
      await storage.write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.conversations.insert(account.id, conversation);
        await tx.messages.insert(account.id, message);
      });
      const expected = { conversation, messages: [message] };
      expect(await wholeConversation(storage.read, account.id, conversation.id)).toEqual(expected);
      const reopened = await reopen();
      expect(await reopened.read.accounts.list()).toEqual([account]);
      expect(await wholeConversation(reopened.read, account.id, conversation.id)).toEqual(expected);
    });

    test('returns its value to its caller', async () => {
      const { storage } = await open();
      const value = { anything: [undefined, awkwardText] };
      expect(await storage.write(async () => value)).toBe(value);
      expect(await storage.write(async () => undefined)).toBeUndefined();
    });

    test('that throws leaves nothing behind, and those committed with it are stored', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversations = Array.from({ length: 9 }, () => sampleConversation());
      const fault = new DomainError('CONVERSATION_CLOSED', 'on purpose');
      const results = await Promise.allSettled(
        conversations.map((conversation, index) =>
          storage.write(async (tx) => {
            await tx.conversations.insert(accountId, conversation);
            await tx.messages.insert(accountId, sampleMessage(conversation.id, 1));
            await tx.events.append(accountId, [sampleEvent(conversation)]);
            if (index % 3 === 1) throw fault;
            return index;
          }),
        ),
      );
      for (const [index, result] of results.entries()) {
        const conversation = conversations[index] as StoredConversation;
        const found = await wholeConversation(storage.read, accountId, conversation.id);
        if (index % 3 === 1) {
          expect(result.status === 'rejected' && result.reason).toBe(fault);
          expect(found).toBeUndefined();
        } else {
          expect(result).toEqual({ status: 'fulfilled', value: index });
          expect(found?.messages).toHaveLength(1);
        }
      }
      expect(await storage.read.accounts.totals(accountId)).toMatchObject({ active: 6, eventSequence: 6 });
    });

    test('about a conversation may run beside those about others, and does what it would alone', async () => {
      const { storage, log } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversations = Array.from({ length: 40 }, () => sampleConversation({ messageCount: 0 }));
      await storage.write(async (tx) => {
        for (const each of conversations) await tx.conversations.insert(accountId, each);
      }, accountId);
      // Each is told of three times, in any order. One throws before it has written, and one after.
      const work = (id: string, index: number) =>
        storage.write(
          async (tx) => {
            const previous = (await tx.conversations.find(accountId, id)) as StoredConversation;
            if (index === 50) throw new DomainError('CONVERSATION_CLOSED', 'on purpose');
            const next = { ...previous, messageCount: previous.messageCount + 1, version: previous.version + 1 };
            await tx.messages.insert(accountId, sampleMessage(id, next.messageCount));
            await tx.conversations.update(accountId, previous, next);
            if (index === 70) throw new DomainError('CONVERSATION_CLOSED', 'on purpose');
            return await tx.events.append(accountId, [sampleEvent(next)]);
          },
          accountId,
          [id],
        );
      const works = Array.from({ length: 120 }, (_, index) => work(conversations[(index * 7) % 40]?.id ?? '', index));
      const results = await Promise.allSettled(works);
      const failed = results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []));
      expect(failed).toEqual([50, 70]);
      for (const [index, { id }] of conversations.entries()) {
        const found = await wholeConversation(storage.read, accountId, id);
        const isOfOneThatFailed = failed.some((each) => (each * 7) % 40 === index);
        expect(found?.messages.map(({ sequence }) => sequence)).toEqual(isOfOneThatFailed ? [1, 2] : [1, 2, 3]);
        expect(found?.conversation.version).toBe(found?.messages.length === 2 ? 3 : 4);
      }
      expect((await log(accountId)).map(({ sequence }) => sequence)).toEqual(
        Array.from({ length: 118 }, (_, index) => index + 1),
      );
    });

    test('that throws before its first await, or throws something other than an Error, is rolled back and rejected like any other', async () => {
      const { storage } = await open();
      const account = sampleAccount();
      const write = storage.write((tx) => {
        void tx.accounts.insert(account);
        throw 'a string'; // nothing keeps a library from throwing one
      });
      await expect(write).rejects.toBe('a string');
      expect(await storage.read.accounts.list()).toEqual([]);
    });

    test('that violates a constraint of the storage leaves nothing behind', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation();
      await expect(
        storage.write(async (tx) => {
          await tx.conversations.insert(accountId, conversation);
          await tx.messages.insert(accountId, sampleMessage(conversation.id, 1));
          await tx.messages.insert(accountId, sampleMessage(conversation.id, 1));
        }),
      ).rejects.toThrow();
      expect(await storage.read.conversations.find(accountId, conversation.id)).toBeUndefined();
      expect(await storage.read.accounts.totals(accountId)).toMatchObject({ active: 0 });
    });

    test('can continue after catching an error of the storage', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [first, second] = [sampleConversation(), sampleConversation()];
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, first);
        try {
          await tx.conversations.insert(accountId, first);
        } catch {
          await tx.conversations.insert(accountId, second);
        }
      });
      expect(await storage.read.conversations.count(accountId, {})).toBe(2);
    });

    test('sees its own writes', async () => {
      const { storage } = await open();
      const account = sampleAccount();
      const conversation = sampleConversation();
      const seen = await storage.write(async (tx) => {
        await tx.accounts.insert(account);
        await tx.conversations.insert(account.id, conversation);
        await tx.events.append(account.id, [sampleEvent(conversation)]);
        return [
          await tx.accounts.find(account.id),
          await tx.conversations.find(account.id, conversation.id),
          (await tx.accounts.totals(account.id)).eventSequence,
        ];
      });
      expect(seen).toEqual([account, conversation, 1]);
    });

    test('never loses the change of another one that ran at the same time', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation();
      await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
      const versions = await Promise.all(
        Array.from({ length: 200 }, () =>
          storage.write(async (tx) => {
            const previous = (await tx.conversations.find(accountId, conversation.id)) as StoredConversation;
            await tx.conversations.update(accountId, previous, { ...previous, version: previous.version + 1 });
            return previous.version + 1;
          }),
        ),
      );
      expect(versions.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 200 }, (_, index) => index + 2));
      expect((await storage.read.conversations.find(accountId, conversation.id))?.version).toBe(201);
    });
  });

  describe('a reader', () => {
    test('sees nothing that is not committed', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation();
      let during: Promise<unknown[]> | undefined;
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        await tx.messages.insert(accountId, sampleMessage(conversation.id, 1));
        let isRead = false;
        during = Promise.all([
          storage.read.conversations.find(accountId, conversation.id),
          storage.read.conversations.count(accountId, {}),
          storage.read.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 9 }]),
        ]).finally(() => {
          isRead = true;
        });
        // A work awaits nothing but its transaction: so it goes on with that until the reader has its answers.
        while (!isRead) await tx.conversations.find(accountId, conversation.id);
      });
      expect(await during).toEqual([undefined, 0, [[]]]);
      expect(await storage.read.conversations.count(accountId, {})).toBe(1);
    });

    test('finds all messages that a conversation says it has', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const { id } = await storage.write(async (tx) => {
        const conversation = sampleConversation();
        await tx.conversations.insert(accountId, conversation);
        return conversation;
      });
      const count = effort(50, 300);
      const writing = Promise.all(Array.from({ length: count }, () => sendTo(storage, accountId, id)));
      const seen = new Set<number>();
      for (let written = false; !written; ) {
        written = await Promise.race([writing.then(() => true), nextTurn(false)]);
        const { messageCount: to } = (await storage.read.conversations.find(accountId, id)) ?? expect.fail();
        const [found = []] = await storage.read.messages.ranges(accountId, [{ conversationId: id, from: 1, to }]);
        expect(found.map(({ sequence }) => sequence)).toEqual(Array.from({ length: to }, (_, index) => index + 1));
        const newest = { count: 1_000, maxCount: 1_000, maxBytes: 1_000_000 };
        const opened = (await storage.read.conversations.open(accountId, id, newest)) ?? expect.fail();
        if (opened.messages !== undefined) expect(opened.messages).toHaveLength(opened.conversation.messageCount);
        const page = await storage.read.messages.page(accountId, id, { isFromEnd: true, limit: 1_000, offset: 0 });
        expect(page?.messages).toHaveLength(page?.conversation.messageCount ?? -1);
        seen.add(to);
      }
      expect(seen).toContain(count);
    });
  });
}

/** A work as the domain does it: reads the conversation, adds a message, writes both. */
function sendTo(storage: Storage, accountId: string, id: string): Promise<void> {
  return storage.write(async (tx) => {
    const previous = (await tx.conversations.find(accountId, id)) as StoredConversation;
    const messageCount = previous.messageCount + 1;
    await tx.messages.insert(accountId, sampleMessage(id, messageCount));
    await tx.conversations.update(accountId, previous, { ...previous, messageCount, version: previous.version + 1 });
  });
}

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../../src/domain/conversation-record.ts';
import {
  type ConversationFilter,
  type ConversationQuery,
  type ConversationSort,
  conversationSorts,
} from '../../../src/domain/conversations.ts';
import type { Lead, LeadFilter } from '../../../src/domain/leads.ts';
import { statuses } from '../../../src/domain/lifecycle.ts';
import { lastMessageOf, type Message } from '../../../src/domain/message-record.ts';
import type { MessageRange } from '../../../src/domain/messages.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import {
  awkwardMetadata,
  awkwardText,
  fullConversation,
  ids,
  sampleAccount,
  sampleConversation,
  sampleLead,
  sampleMessage,
  startMs,
  storedAccount,
} from '../../support/samples.ts';
import { wholeConversation } from '../../support/whole-conversation.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of conversations and what is in them: a part of `storageContract`. */
export function conversationsContract(open: () => Promise<OpenedStorage>): void {
  describe('conversations', () => {
    test('are read back as they were stored, with all fields set and with all optional fields empty', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const empty = sampleConversation();
      const full = fullConversation();
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, empty);
        await tx.conversations.insert(accountId, full);
      });
      expect(await storage.read.conversations.find(accountId, empty.id)).toEqual(empty);
      const found = await storage.read.conversations.find(accountId, full.id);
      expect(found).toEqual(full);
      expect(Object.keys(found?.metadata ?? {})).toEqual(Object.keys(full.metadata));
      expect(await storage.read.conversations.find(accountId, ids.next('conversation', startMs))).toBeUndefined();
    });

    test('preserve any text and metadata that the domain accepts', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const codePoint = fc.oneof(
        fc.integer({ min: 1, max: 0x7f }),
        fc.integer({ min: 0x80, max: 0xd7ff }),
        fc.integer({ min: 0xe000, max: 0x10ffff }),
      );
      const text = fc.array(codePoint, { maxLength: 20 }).map((points) => String.fromCodePoint(...points));
      // JSON knows no −0; adding 0 makes it 0.
      await fc.assert(
        fc.asyncProperty(
          fc.record({
            subject: fc.option(text),
            visitor: fc.option(fc.record({ id: fc.option(text), name: fc.option(text), email: fc.option(text) })),
            assignee: fc.option(fc.record({ id: text, name: fc.option(text) })),
            tags: fc.uniqueArray(text),
            metadata: fc.dictionary(
              text.filter((key) => key !== '__proto__'),
              fc.oneof(
                text,
                fc.boolean(),
                fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
              ),
              { maxKeys: 5, noNullPrototype: true },
            ),
          }),
          async (facts) => {
            const conversation = sampleConversation(facts);
            await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
            expect(await storage.read.conversations.find(accountId, conversation.id)).toEqual(conversation);
          },
        ),
        { numRuns: effort(15, 50) },
      );
    });

    test('can change every field except the id and the creation time', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const bystander = sampleConversation();
      const before = sampleConversation();
      const { id, createdAt, ...changes } = fullConversation();
      const after = { ...before, ...changes, version: 2 };
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, bystander);
        await tx.conversations.insert(accountId, before);
        await tx.conversations.update(accountId, before, after);
      });
      expect(await storage.read.conversations.find(accountId, before.id)).toEqual(after);
      const back = { ...before, version: 3 };
      await storage.write(async (tx) => tx.conversations.update(accountId, after, back));
      expect(await storage.read.conversations.find(accountId, before.id)).toEqual(back);
      expect(await storage.read.conversations.find(accountId, bystander.id)).toEqual(bystander);
    });

    test('are found by the email address that their visitor has now', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      let conversation = sampleConversation();
      await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
      for (const email of [
        'ADA@example.com',
        'ÄDA@Straße.de',
        'Zoë@example.com',
        null,
        'ÄDA@Straße.de',
        'ada@example.com',
      ]) {
        const visitor = email === null ? null : { id: null, name: null, email };
        const next = { ...conversation, visitor, version: conversation.version + 1 };
        const previous = conversation;
        await storage.write(async (tx) => tx.conversations.update(accountId, previous, next));
        conversation = next;
        for (const visitorEmail of ['ada@example.com', 'äda@straße.de', 'zoë@example.com']) {
          const isIt = visitorEmail === email?.toLowerCase();
          expect(await storage.read.conversations.count(accountId, { visitorEmail }), visitorEmail).toBe(isIt ? 1 : 0);
        }
      }
    });

    test('are never overwritten by an update of an old version', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const first = sampleConversation();
      const second = { ...first, subject: 'second', version: 2 };
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, first);
        await tx.conversations.update(accountId, first, second);
      });
      const stale = { ...first, status: 'closed', version: 2 } as const;
      await expect(storage.write(async (tx) => tx.conversations.update(accountId, first, stale))).rejects.toThrow();
      expect(await storage.read.conversations.find(accountId, first.id)).toEqual(second);
      expect(await storage.read.accounts.totals(accountId)).toMatchObject({ active: 1, closed: 0 });
    });

    test('are found by many ids at once, in the order of the ids, also by the same id twice', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [a, b, c] = [sampleConversation(), sampleConversation(), sampleConversation()];
      await storage.write(async (tx) => {
        for (const conversation of [a, b, c]) await tx.conversations.insert(accountId, conversation);
      });
      const unknown = ids.next('conversation', startMs);
      const asked = [c.id, unknown, a.id, c.id, 'no id at all', "'", b.id];
      expect(await storage.read.conversations.findMany(accountId, asked)).toEqual([
        c,
        undefined,
        a,
        c,
        undefined,
        undefined,
        b,
      ]);
      expect(await storage.read.conversations.findMany(accountId, [])).toEqual([]);
    });

    test('have an external id that is unique in the account and can be released and taken', async () => {
      const { storage } = await open();
      const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
      const externalId = awkwardText;
      const first = sampleConversation({ externalId });
      const elsewhere = sampleConversation({ externalId });
      const second = sampleConversation();
      await storage.write(async (tx) => {
        await tx.conversations.insert(one.id, first);
        await tx.conversations.insert(two.id, elsewhere);
        await tx.conversations.insert(one.id, second);
        await tx.conversations.insert(one.id, sampleConversation()); // any number may have none
      });
      expect(await storage.read.conversations.idByExternalId(one.id, externalId)).toBe(first.id);
      expect(await storage.read.conversations.idByExternalId(two.id, externalId)).toBe(elsewhere.id);
      expect(await storage.read.conversations.idByExternalId(one.id, 'another')).toBeUndefined();

      const taking = { ...second, externalId, version: 2 };
      await expect(storage.write(async (tx) => tx.conversations.update(one.id, second, taking))).rejects.toThrow();
      expect(await storage.read.conversations.find(one.id, second.id)).toEqual(second);
      await storage.write(async (tx) => {
        await tx.conversations.update(one.id, first, { ...first, externalId: null, version: 2 });
        await tx.conversations.update(one.id, second, taking);
      });
      expect(await storage.read.conversations.idByExternalId(one.id, externalId)).toBe(second.id);
    });

    test('are paged as by a plain sort of all of them, for every sort, filter, offset and cursor', async () => {
      const { storage } = await open();
      await fc.assert(
        fc.asyncProperty(
          population(),
          fc.array(queryOf(), { minLength: 10, maxLength: 30 }),
          async (seeds, queries) => {
            const { accountId, conversations, unread } = await populate(storage, seeds);
            for (const { filter, sort, limit, offset, cursor } of queries) {
              const after = cursor === undefined ? undefined : conversations[cursor % conversations.length];
              const rest = conversations
                .filter((conversation) => matches(conversation, filter, unread))
                .sort(byPlace(sort))
                .filter((conversation) => after === undefined || byPlace(sort)(conversation, after) > 0);
              const query: ConversationQuery = {
                filter,
                sort,
                limit,
                offset: after === undefined ? offset : 0,
                ...(after === undefined ? {} : { after: placeOf(after) }),
              };
              const items = rest.slice(query.offset, query.offset + limit);
              const page = await storage.read.conversations.page(accountId, query);
              expect(page.items).toEqual(items);
              expect(page.hasMore).toBe(rest.length > query.offset + limit);
              if (page.readPositions === undefined) continue;
              const { readPositions } = storage.read;
              const listed = items.map(({ id }) => id);
              expect(page.readPositions).toEqual(await readPositions.ofConversations(accountId, listed));
            }
          },
        ),
        { numRuns: effort(6, 60) },
      );
    });

    test('are each listed once when cursors are followed, and the last page says that it is the last', async () => {
      const { storage } = await open();
      await fc.assert(
        fc.asyncProperty(
          population(),
          filterOf(),
          fc.constantFrom(...conversationSorts),
          fc.integer({ min: 1, max: 9 }),
          async (seeds, filter, sort, limit) => {
            const { accountId, conversations, unread } = await populate(storage, seeds);
            const seen: StoredConversation[] = [];
            // A cursor that does not move on would go round for ever, and no timer would end it.
            for (let hasMore = true; hasMore && seen.length <= conversations.length; ) {
              const last = seen.at(-1);
              const after = last === undefined ? undefined : placeOf(last);
              const page = await storage.read.conversations.page(accountId, {
                filter,
                sort,
                limit,
                offset: 0,
                after,
              });
              seen.push(...page.items);
              expect(page.items.length, 'only the last page is short').toBe(page.hasMore ? limit : page.items.length);
              hasMore = page.hasMore;
            }
            expect(seen).toEqual(conversations.filter((one) => matches(one, filter, unread)).sort(byPlace(sort)));
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });

    test('have counters that equal a recount, after any inserts and changes of status and tags', async () => {
      const { storage } = await open();
      const change = fc.record({
        index: fc.nat(),
        status: fc.constantFrom(...statuses),
        tags: fc.uniqueArray(tag, { maxLength: 3 }),
        fails: fc.boolean(),
      });
      await fc.assert(
        fc.asyncProperty(
          population(),
          fc.array(change, { maxLength: 40 }),
          fc.array(filterOf(), { minLength: 5, maxLength: 10 }),
          async (seeds, changes, filters) => {
            const { accountId, conversations, unread } = await populate(storage, seeds);
            await Promise.allSettled(
              changes.map(({ index, status, tags, fails }) => {
                const place = index % Math.max(1, conversations.length);
                const previous = conversations[place];
                if (previous === undefined) return undefined;
                const next = { ...previous, status, tags, version: previous.version + 1 };
                if (!fails) conversations[place] = next;
                return storage.write(async (tx) => {
                  await tx.conversations.update(accountId, previous, next);
                  if (fails) throw new Error('on purpose');
                });
              }),
            );
            for (const filter of [{}, ...statuses.map((status) => ({ statuses: [status] })), ...filters]) {
              const count = conversations.filter((conversation) => matches(conversation, filter, unread)).length;
              expect(await storage.read.conversations.count(accountId, filter), JSON.stringify(filter)).toBe(count);
            }
            const countOf = (status: string) => conversations.filter((one) => one.status === status).length;
            expect(await storage.read.accounts.totals(accountId)).toMatchObject({
              active: countOf('active'),
              pending: countOf('pending'),
              closed: countOf('closed'),
            });
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });
  });

  describe('messages', () => {
    test('are read back as they were stored, with all fields set and with all optional fields empty', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation({ messageCount: 4 });
      const messages = [
        sampleMessage(conversation.id, 1),
        sampleMessage(conversation.id, 2, {
          sender: 'visitor',
          content: `${awkwardText}\r\n\t${awkwardText}`,
          author: { id: awkwardText, name: null },
          metadata: awkwardMetadata,
          createdAt: timestamp(startMs + 1),
        }),
        sampleMessage(conversation.id, 3, {
          sender: 'bot',
          clientId: 'draft-17',
          author: { id: null, name: awkwardText },
        }),
        sampleMessage(conversation.id, 4, { content: '👩‍👩‍👧‍👦'.repeat(2_340) }), // 16,380 code points
      ];
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        for (const message of messages) await tx.messages.insert(accountId, message);
      });
      expect(await wholeConversation(storage.read, accountId, conversation.id)).toEqual({
        conversation,
        messages,
      });
      expect(
        await storage.read.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 4 }]),
      ).toEqual([messages]);
      expect(
        await storage.read.messages.findMany(
          accountId,
          messages.map((message) => message.id),
        ),
      ).toEqual(messages);
    });

    test('are read page by page as by plain slices, from either end, with what says whose they are', async () => {
      const { storage } = await open();
      const bound = fc.option(fc.oneof(fc.nat(14), fc.constant(Number.MAX_SAFE_INTEGER)), { nil: undefined });
      const page = fc.record({
        after: bound,
        before: bound,
        isFromEnd: fc.boolean(),
        limit: fc.integer({ min: 1, max: 9 }),
        offset: fc.oneof(fc.nat(14), fc.constant(2 ** 31 - 1)),
      });
      await fc.assert(
        fc.asyncProperty(fc.nat(12), fc.array(page, { minLength: 10, maxLength: 20 }), async (messageCount, pages) => {
          const { id: accountId } = await storedAccount(storage);
          const visitor = { id: 'visitor-1', name: null, email: 'ada@example.com' };
          const conversation = sampleConversation({ messageCount, visitor: messageCount % 2 === 0 ? visitor : null });
          const messages = await storeMessages(storage, accountId, conversation);
          for (const { after = 0, before = messageCount + 1, isFromEnd, limit, offset } of pages) {
            const between = messages.filter(({ sequence }) => sequence > after && sequence < before);
            const items = isFromEnd
              ? between.slice(0, Math.max(0, between.length - offset)).slice(-limit)
              : between.slice(offset, offset + limit);
            const asked = { after, before, isFromEnd, limit, offset };
            expect(await storage.read.messages.page(accountId, conversation.id, asked)).toEqual({
              conversation: { id: conversation.id, visitor: conversation.visitor, messageCount },
              messages: items,
            });
          }
        }),
        { numRuns: effort(8, 20) },
      );
      const { id: accountId } = await storedAccount(storage);
      const unknown = ids.next('conversation', startMs);
      const first = { isFromEnd: false, limit: 9, offset: 0 };
      expect(await storage.read.messages.page(accountId, unknown, first)).toBeUndefined();
    });

    test('are read along with their conversation as they are read by themselves, where they are few and short', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation({ messageCount: 12, contentBytes: 1_000 });
      const messages = await storeMessages(storage, accountId, conversation);
      const position = { reader: 'a', sequence: 3, readAt: timestamp(startMs) };
      await storage.write(async (tx) => tx.readPositions.move(accountId, conversation, position));
      const { conversations } = storage.read;
      const opened = async (asked: { count: number; maxCount: number; maxBytes: number }) => {
        const found = await conversations.open(accountId, conversation.id, asked);
        expect(found?.conversation).toEqual(conversation);
        if (found?.readPositions !== undefined) {
          expect(found.readPositions).toEqual({ positions: [position], moves: 1 });
        }
        return found?.messages;
      };
      const limits = { maxCount: 12, maxBytes: 1_000 };
      for (const count of [0, 1, 11, 12, 13, 10_000]) {
        const found = await opened({ ...limits, count });
        if (found !== undefined) expect(found).toEqual(count === 0 ? [] : messages.slice(-count));
      }
      expect(await opened({ ...limits, count: 12, maxCount: 11 })).toBeUndefined();
      expect(await opened({ ...limits, count: 1, maxBytes: 999 })).toBeUndefined();
      expect(await conversations.open(accountId, ids.next('conversation', startMs), { ...limits, count: 9 })).toBe(
        undefined,
      );
    });

    test('are known to their conversation by the last of them, with the first 200 characters of any text', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const text = fc
        .array(fc.constantFrom('a', '👩', '\u0301', '"', '\\', '\n', '\u2028', 'é'), { minLength: 1, maxLength: 250 })
        .map((characters) => characters.join(''));
      await fc.assert(
        fc.asyncProperty(fc.array(text, { minLength: 1, maxLength: 2 }), async (texts) => {
          const conversation = sampleConversation({ messageCount: texts.length });
          const { id } = conversation;
          const messages = texts.map((content, index) =>
            sampleMessage(id, index + 1, { content, author: { id: awkwardText, name: null } }),
          );
          const last = messages.at(-1) as Message;
          const lastMessage = lastMessageOf(last);
          const expected = { ...conversation, lastMessage };
          await storage.write(async (tx) => {
            await tx.conversations.insert(accountId, expected);
            for (const message of messages) await tx.messages.insert(accountId, message);
          });
          expect(lastMessage.preview).toBe([...last.content].slice(0, 200).join(''));
          const { read } = storage;
          const page = { filter: {}, sort: '-createdAt', limit: 100, offset: 0 } as const;
          expect(await read.conversations.find(accountId, id)).toEqual(expected);
          expect(await read.conversations.findMany(accountId, [id])).toEqual([expected]);
          expect((await read.conversations.page(accountId, page)).items).toContainEqual(expected);
        }),
        { numRuns: effort(15, 50) },
      );
    });

    test('are found by many ids at once, across conversations, in the order of the ids', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [one, two] = [sampleConversation(), sampleConversation()];
      const a = sampleMessage(one.id, 1);
      const b = sampleMessage(two.id, 1);
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, one);
        await tx.conversations.insert(accountId, two);
        await tx.messages.insert(accountId, a);
        await tx.messages.insert(accountId, b);
      });
      const unknown = ids.next('message', startMs);
      expect(await storage.read.messages.findMany(accountId, [b.id, unknown, a.id, b.id])).toEqual([
        b,
        undefined,
        a,
        b,
      ]);
      expect(await storage.read.messages.findMany(accountId, [])).toEqual([]);
    });

    test('come back as they were written, whatever is in their texts', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const texts = [
        'NULL',
        'null',
        '""',
        '\\',
        '{a,b}',
        "it's",
        'a\nb\tc',
        ',',
        ' ',
        '\\n',
        '"a\\"b"',
        '€😀\u0301',
        '$1',
        ':rows',
      ];
      const conversation = sampleConversation({ messageCount: texts.length });
      const messages = texts.map((text, index) =>
        sampleMessage(conversation.id, index + 1, {
          content: text,
          clientId: text,
          author: { id: text, name: text },
          metadata: { [text]: text },
        }),
      );
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        for (const message of messages) await tx.messages.insert(accountId, message);
      }, accountId);
      const ids = messages.map(({ id }) => id);
      expect(await storage.read.messages.findMany(accountId, ids)).toEqual(messages);
    });

    test('cannot be inserted into a conversation that does not exist, or with a sequence or an id that is taken', async () => {
      const { storage } = await open();
      const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
      const conversation = sampleConversation();
      const first = sampleMessage(conversation.id, 1);
      await storage.write(async (tx) => {
        await tx.conversations.insert(one.id, conversation);
        await tx.messages.insert(one.id, first);
      });
      const nowhere = sampleMessage(ids.next('conversation', startMs), 1);
      const attempts: [string, Message][] = [
        [one.id, nowhere],
        [one.id, sampleMessage(conversation.id, 1)],
        [one.id, { ...first, sequence: 2 }],
        [two.id, sampleMessage(conversation.id, 2)],
      ];
      for (const [accountId, message] of attempts) {
        await expect(storage.write(async (tx) => tx.messages.insert(accountId, message))).rejects.toThrow();
      }
      expect((await wholeConversation(storage.read, one.id, conversation.id))?.messages).toEqual([first]);
    });

    test('are read in ranges of many conversations at once, by sequence within each range, in the requested order', async () => {
      const { storage } = await open();
      const range = fc.record({ conversation: fc.nat(), from: fc.integer({ min: 1, max: 14 }), to: fc.nat(14) });
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.nat(12), { minLength: 1, maxLength: 5 }),
          fc.array(range, { maxLength: 12 }),
          async (lengths, asked) => {
            const { id: accountId } = await storedAccount(storage);
            const conversations = lengths.map((messageCount) => sampleConversation({ messageCount }));
            const messages = conversations.map(({ id, messageCount }) =>
              Array.from({ length: messageCount }, (_, index) => sampleMessage(id, index + 1)),
            );
            await storage.write(async (tx) => {
              for (const conversation of conversations) await tx.conversations.insert(accountId, conversation);
              // Written the wrong way round and mixed: the order is to be the storage's doing.
              for (let sequence = 12; sequence >= 1; sequence--) {
                for (const list of messages) {
                  const message = list[sequence - 1];
                  if (message !== undefined) await tx.messages.insert(accountId, message);
                }
              }
            });
            const ranges: MessageRange[] = asked.map(({ conversation, from, to }) => ({
              conversationId:
                conversations[conversation % (conversations.length + 1)]?.id ?? ids.next('conversation', startMs),
              from,
              to,
            }));
            expect(await storage.read.messages.ranges(accountId, ranges)).toEqual(
              ranges.map(({ conversationId, from, to }) =>
                messages
                  .flat()
                  .filter((one) => one.conversationId === conversationId && one.sequence >= from && one.sequence <= to),
              ),
            );
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });

    test('are read along with their conversation, with its read positions, as they would be found, if they are few and short', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation({ messageCount: 5, contentBytes: 1_000 });
      const messages = Array.from({ length: 5 }, (_, index) => sampleMessage(conversation.id, index + 1));
      const position = { reader: 'agent-1', sequence: 3, readAt: timestamp(startMs) };
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        for (const message of messages) await tx.messages.insert(accountId, message);
        await tx.readPositions.move(accountId, conversation, position);
      });
      const [readPositions] = await storage.read.readPositions.ofConversations(accountId, [conversation.id]);
      expect(readPositions).toEqual({ positions: [position], moves: 1 });
      const opened = (count: number, maxCount: number, maxBytes: number) =>
        storage.read.conversations.open(accountId, conversation.id, { count, maxCount, maxBytes });
      for (const count of [0, 1, 4, 5, 6, 10_000]) {
        const all = { conversation, readPositions, messages: messages.slice(Math.max(0, 5 - count)) };
        expect(await opened(count, 5, 1_000), `${count}`).toEqual(all);
      }
      for (const [maxCount, maxBytes] of [
        [4, 1_000],
        [5, 999],
      ] as const) {
        expect(await opened(5, maxCount, maxBytes)).toEqual({ conversation, readPositions });
      }
    });
  });

  describe('leads', () => {
    test('are read back as they were stored, with all fields set and with all optional fields empty', async () => {
      const { storage, reopen } = await open();
      const { id: accountId } = await storedAccount(storage);
      const conversation = sampleConversation();
      const empty = sampleLead({ email: null, phone: '+49 30 1234567' });
      const full = sampleLead({
        conversationId: conversation.id,
        name: awkwardText,
        email: 'zoë@例え.jp',
        phone: awkwardText,
        company: awkwardText,
        metadata: awkwardMetadata,
        createdAt: timestamp(startMs + 1),
      });
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, conversation);
        await tx.leads.insert(accountId, empty);
        await tx.leads.insert(accountId, full);
      });
      expect(await storage.read.leads.find(accountId, empty.id)).toEqual(empty);
      expect(await storage.read.leads.find(accountId, ids.next('lead', startMs))).toBeUndefined();
      const found = await (await reopen()).read.leads.find(accountId, full.id);
      expect(found).toEqual(full);
      expect(Object.keys(found?.metadata ?? {})).toEqual(Object.keys(full.metadata));
    });

    test('are found by many ids at once, in the order of the ids, also by the same id twice', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const [a, b, c] = [sampleLead(), sampleLead({ phone: '1' }), sampleLead()];
      await storage.write(async (tx) => {
        for (const lead of [a, b, c]) await tx.leads.insert(accountId, lead);
      });
      const asked = [c.id, ids.next('lead', startMs), a.id, c.id, 'no id at all', "'", b.id];
      const expected = [c, undefined, a, c, undefined, undefined, b];
      expect(await storage.read.leads.findMany(accountId, asked)).toEqual(expected);
      expect(await storage.read.leads.findMany(accountId, [])).toEqual([]);
    });

    test('are paged newest first as by a plain sort, by offset and by cursor, under any filter, with a count that equals a recount', async () => {
      const { storage } = await open();
      const conversationId = fc.constantFrom(...Array.from({ length: 2 }, () => ids.next('conversation', startMs)));
      const time = fc.integer({ min: -1, max: 6 }).map((offset) => startMs + offset);
      // A few milliseconds for many leads: most of them tie.
      const seed = fc.record({
        createdMs: fc.nat(5),
        fails: fc.boolean(),
        conversationId: fc.option(conversationId),
        email: fc.option(email),
      });
      const question = fc.record({
        limit: fc.integer({ min: 1, max: 9 }),
        offset: fc.oneof(fc.nat(25), fc.constant(2 ** 31 - 1)),
        cursor: fc.option(fc.nat()),
        filter: fc.record(
          { conversationId, email: comparable, createdAfter: time, createdBefore: time },
          { requiredKeys: [] },
        ),
      });
      await fc.assert(
        fc.asyncProperty(
          fc.array(seed, { maxLength: 20 }),
          fc.array(question, { minLength: 5, maxLength: 15 }),
          async (seeds, questions) => {
            const { id: accountId } = await storedAccount(storage);
            const leads = seeds.map(({ createdMs, fails: _, ...facts }) => {
              const atMs = startMs + createdMs;
              return sampleLead({ ...facts, id: ids.next('lead', atMs), createdAt: timestamp(atMs) });
            });
            await Promise.allSettled(
              leads.map((lead, index) =>
                storage.write(async (tx) => {
                  await tx.leads.insert(accountId, lead);
                  if (seeds[index]?.fails) throw new Error('on purpose');
                }),
              ),
            );
            const sorted = leads
              .filter((_, index) => !seeds[index]?.fails)
              .toSorted((a, b) => compare(b.createdAt, a.createdAt) || compare(b.id, a.id));
            for (const { limit, offset, cursor, filter } of questions) {
              const found = sorted.filter((lead) => matchesLead(lead, filter));
              const after: Lead | undefined = cursor === null ? undefined : found[cursor % found.length];
              const rest = after === undefined ? found.slice(offset) : found.slice(found.indexOf(after) + 1);
              const query = after === undefined ? { limit, offset } : { limit, offset: 0, after: after.id };
              expect(await storage.read.leads.page(accountId, { filter, ...query })).toEqual({
                items: rest.slice(0, limit),
                hasMore: rest.length > limit,
              });
              expect(await storage.read.leads.count(accountId, filter)).toBe(found.length);
            }
            expect(await storage.read.leads.count(accountId, {})).toBe(sorted.length);
            expect(await storage.write(async (tx) => tx.leads.count(accountId, {}))).toBe(sorted.length);
          },
        ),
        { numRuns: effort(12, 40) },
      );
    });

    test('cannot be inserted into an account that does not exist, or twice into the same one', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const lead = sampleLead();
      await storage.write(async (tx) => tx.leads.insert(accountId, lead));
      const nowhere = ids.next('account', startMs);
      await expect(storage.write(async (tx) => tx.leads.insert(nowhere, sampleLead()))).rejects.toThrow();
      await expect(storage.write(async (tx) => tx.leads.insert(accountId, lead))).rejects.toThrow();
      expect(await storage.read.leads.count(accountId, {})).toBe(1);
    });
  });
}

/** Stores a conversation with as many messages as it says, no two alike. */
async function storeMessages(
  storage: Storage,
  accountId: string,
  conversation: StoredConversation,
): Promise<readonly Message[]> {
  const messages = Array.from({ length: conversation.messageCount }, (_, index) =>
    sampleMessage(conversation.id, index + 1, {
      content: `${awkwardText} ${index}`,
      author: index % 2 === 0 ? { id: awkwardText, name: null } : null,
      metadata: index % 3 === 0 ? awkwardMetadata : {},
    }),
  );
  await storage.write(async (tx) => {
    await tx.conversations.insert(accountId, conversation);
    for (const message of messages) await tx.messages.insert(accountId, message);
  });
  return messages;
}

/** Of each conversation, the readers that have a position before its last message. */
type Unread = ReadonlyMap<string, readonly string[]>;

interface Seed extends Pick<StoredConversation, 'status' | 'visitor' | 'assignee' | 'tags' | 'messageCount'> {
  readonly createdMs: number;
  readonly activityMs: number;
  readonly updatedMs: number;
  readonly named: boolean;
  /** How many of its messages each reader has read; more than there are stands for all. */
  readonly read: Readonly<Record<string, number>>;
}

// A few milliseconds for many conversations: most of them tie, in creation as in activity.
const spreadMs = 6;

const few = fc.constantFrom('a', 'b', '', '"');
/** Spellings of each of some addresses. The first is the form in which it is compared. */
const addresses = [
  ['ada@example.com', 'Ada@Example.com'],
  ['k@example.com', 'K@example.com', '\u212a@example.com'],
  ['zoë@example.com', 'ZOË@example.com', 'Zoe\u0308@example.com'],
  ['zoe@example.com'],
  ['äda@straße.de', 'ÄDA@Straße.de'],
  ['äda@strasse.de', 'ÄDA@STRASSE.DE'],
  ['νικοσ.π@example.gr', 'νικος.π@example.gr', 'ΝΙΚΟΣ.Π@example.gr'],
] as const;
const email = fc.constantFrom(...addresses.flat());
const comparable = fc.constantFrom(...addresses.map(([first]) => first));

function isSpellingOf(address: string, email: string | null | undefined): boolean {
  return addresses.some((spellings) => spellings[0] === address && spellings.some((spelling) => spelling === email));
}

const reader = fc.constantFrom('a', 'A', 'b');
/** Such that one could be taken for another, or for two of them, in any encoding of a list. */
const tag = fc.constantFrom('a', 'b', 'ab', '"', 'a"', '"b', '\\', '\\"a', '] [', 'A', '\u{1f4e6}');

function population(): fc.Arbitrary<Seed[]> {
  return fc.array(
    fc.record({
      createdMs: fc.nat(spreadMs),
      activityMs: fc.nat(spreadMs),
      status: fc.constantFrom(...statuses),
      named: fc.boolean(),
      updatedMs: fc.nat(spreadMs),
      visitor: fc.option(fc.record({ id: fc.option(few), name: fc.constant(null), email: fc.option(email) })),
      assignee: fc.option(fc.record({ id: few, name: fc.constant(null) })),
      tags: fc.uniqueArray(tag, { maxLength: 4 }).map((tags) => tags.toSorted()),
      messageCount: fc.nat(2),
      read: fc.dictionary(reader, fc.nat(2)),
    }),
    { maxLength: 40 },
  );
}

function filterOf(): fc.Arbitrary<ConversationFilter> {
  const time = fc.integer({ min: -1, max: spreadMs + 1 }).map((offset) => startMs + offset);
  return fc.record(
    {
      statuses: fc.uniqueArray(fc.constantFrom(...statuses), { minLength: 1 }),
      visitorId: few,
      visitorEmail: comparable,
      assigneeId: few,
      unassigned: fc.boolean(),
      tags: fc.uniqueArray(tag, { minLength: 1, maxLength: 2 }),
      unreadBy: reader,
      createdAfter: time,
      createdBefore: time,
      updatedAfter: time,
      // Rarely, for it leaves one conversation at most.
      externalId: fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.nat(20).map(String)),
    },
    { requiredKeys: [] },
  );
}

function queryOf() {
  return fc.record({
    filter: filterOf(),
    sort: fc.constantFrom(...conversationSorts),
    limit: fc.integer({ min: 1, max: 12 }),
    offset: fc.oneof(fc.nat(45), fc.constant(2 ** 31 - 1)),
    cursor: fc.option(fc.nat(), { nil: undefined }),
  });
}

/** Stores conversations in an account of their own. */
async function populate(
  storage: Storage,
  seeds: readonly Seed[],
): Promise<{ accountId: string; conversations: StoredConversation[]; unread: Unread }> {
  const account = sampleAccount();
  const conversations = seeds.map(({ createdMs, activityMs, updatedMs, named, read: _, ...facts }, index) =>
    sampleConversation(
      {
        ...facts,
        lastActivityAt: timestamp(startMs + activityMs),
        updatedAt: timestamp(startMs + updatedMs),
        externalId: named ? String(index) : null,
      },
      startMs + createdMs,
    ),
  );
  await storage.write(async (tx) => {
    await tx.accounts.insert(account);
    for (const [index, conversation] of conversations.entries()) {
      await tx.conversations.insert(account.id, conversation);
      for (const [reader, read] of Object.entries(seeds[index]?.read ?? {})) {
        const sequence = Math.min(read, conversation.messageCount);
        await tx.readPositions.move(account.id, conversation, { reader, sequence, readAt: timestamp(startMs) });
      }
    }
  });
  const unread = conversations.map(({ id, messageCount }, index): [string, string[]] => {
    const positions = Object.entries(seeds[index]?.read ?? {});
    return [id, positions.flatMap(([reader, read]) => (read < messageCount ? [reader] : []))];
  });
  return { accountId: account.id, conversations, unread: new Map(unread) };
}

function matchesLead(lead: Lead, filter: LeadFilter): boolean {
  const createdMs = Date.parse(lead.createdAt);
  return (
    (filter.conversationId === undefined || lead.conversationId === filter.conversationId) &&
    (filter.email === undefined || isSpellingOf(filter.email, lead.email)) &&
    (filter.createdAfter === undefined || createdMs > filter.createdAfter) &&
    (filter.createdBefore === undefined || createdMs < filter.createdBefore)
  );
}

function matches(conversation: StoredConversation, filter: ConversationFilter, unread: Unread): boolean {
  const createdMs = Date.parse(conversation.createdAt);
  return (
    (filter.statuses?.includes(conversation.status) ?? true) &&
    (filter.externalId === undefined || conversation.externalId === filter.externalId) &&
    (filter.visitorId === undefined || conversation.visitor?.id === filter.visitorId) &&
    (filter.visitorEmail === undefined || isSpellingOf(filter.visitorEmail, conversation.visitor?.email)) &&
    (filter.assigneeId === undefined || conversation.assignee?.id === filter.assigneeId) &&
    (filter.unassigned === undefined || (conversation.assignee === null) === filter.unassigned) &&
    (filter.unreadBy === undefined || (unread.get(conversation.id)?.includes(filter.unreadBy) ?? false)) &&
    (filter.tags ?? []).every((tag) => conversation.tags.includes(tag)) &&
    (filter.updatedAfter === undefined || Date.parse(conversation.updatedAt) > filter.updatedAfter) &&
    (filter.createdAfter === undefined || createdMs > filter.createdAfter) &&
    (filter.createdBefore === undefined || createdMs < filter.createdBefore)
  );
}

function byPlace(sort: ConversationSort): (a: StoredConversation, b: StoredConversation) => number {
  const direction = sort.startsWith('-') ? -1 : 1;
  const timeOf = ({ createdAt, lastActivityAt }: StoredConversation) =>
    sort.endsWith('createdAt') ? createdAt : lastActivityAt;
  return (a, b) => direction * (compare(timeOf(a), timeOf(b)) || compare(a.id, b.id));
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1;
}

function placeOf(conversation: StoredConversation): { id: string; lastActivityAtMs: number } {
  return { id: conversation.id, lastActivityAtMs: Date.parse(conversation.lastActivityAt) };
}

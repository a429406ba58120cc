import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../src/domain/conversation.ts';
import {
  type ConversationFilter,
  type ConversationQuery,
  type ConversationSort,
  conversationSorts,
} from '../../src/domain/conversations.ts';
import { bucketOf, type DurationTally } from '../../src/domain/durations.ts';
import { DomainError } from '../../src/domain/errors.ts';
import { type EventFilter, eventTypes, type NewEvent, type StoredEvent } from '../../src/domain/events.ts';
import {
  type CountName,
  countNames,
  type HappeningSums,
  type Happenings,
  type QuarterRange,
} from '../../src/domain/happenings.ts';
import type { KeptResult } from '../../src/domain/idempotency.ts';
import type { Lead } from '../../src/domain/leads.ts';
import { statuses } from '../../src/domain/lifecycle.ts';
import type { Message, MessageRange } from '../../src/domain/messages.ts';
import type { RateWindow, Storage, Touched } from '../../src/domain/ports.ts';
import { timestamp } from '../../src/domain/time.ts';
import { until } from '../support/subscribe.ts';
import { watchTimers } from '../support/timers.ts';
import {
  awkwardMetadata,
  awkwardText,
  ids,
  sampleAccount,
  sampleAttempt,
  sampleConversation,
  sampleDelivery,
  sampleEvent,
  sampleHash,
  sampleKey,
  sampleLead,
  sampleMessage,
  sampleWebhook,
  start,
  startMs,
  storedAccount,
} from './samples.ts';
import { webhookContract } from './webhook-contract.ts';

/** An event as the log keeps it. */
export interface LoggedEvent extends NewEvent {
  readonly sequence: number;
}

/** A storage of a test's own, empty at first and gone when the test has finished. */
export interface OpenedStorage {
  readonly storage: Storage;
  /** Closes it and opens what it has left behind. */
  reopen(): Promise<Storage>;
  /** Opens another storage on the same things, as another process would. */
  beside(): Promise<Storage>;
  /** The account's log as it is kept, by sequence. */
  log(accountId: string): Promise<readonly LoggedEvent[]>;
}

/** What every implementation of the port `Storage` promises, whatever it keeps things in. */
export function storageContract(name: string, open: () => Promise<OpenedStorage>): void {
  describe(`storage in ${name}`, () => {
    describe('a work', () => {
      test('is kept when its promise resolves, and after reopening', async () => {
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
        expect(await storage.read.conversations.findWithMessages(account.id, conversation.id)).toEqual(expected);
        const reopened = await reopen();
        expect(await reopened.read.accounts.list()).toEqual([account]);
        expect(await reopened.read.conversations.findWithMessages(account.id, conversation.id)).toEqual(expected);
      });

      test('returns its value to its caller', async () => {
        const { storage } = await open();
        const value = { anything: [undefined, awkwardText] };
        expect(await storage.write(async () => value)).toBe(value);
        expect(await storage.write(async () => undefined)).toBeUndefined();
      });

      test('that throws leaves nothing behind, and its neighbours are kept', async () => {
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
          const found = await storage.read.conversations.findWithMessages(accountId, conversation.id);
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

      test('that throws before its first await, or not an Error, is undone and reported like any other', async () => {
        const { storage } = await open();
        const account = sampleAccount();
        const write = storage.write((tx) => {
          void tx.accounts.insert(account);
          throw 'a string'; // nothing keeps a library from throwing one
        });
        await expect(write).rejects.toBe('a string');
        expect(await storage.read.accounts.list()).toEqual([]);
      });

      test('that breaks a rule of the storage itself leaves nothing behind', async () => {
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

      test('can go on after catching an error of the storage', async () => {
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

      test('sees what it has written itself', async () => {
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

      test('never loses the change of another that ran at the same time', async () => {
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
          during = Promise.all([
            storage.read.conversations.find(accountId, conversation.id),
            storage.read.conversations.count(accountId, {}),
            storage.read.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 9 }]),
          ]);
        });
        expect(await during).toEqual([undefined, 0, [[]]]);
        expect(await storage.read.conversations.count(accountId, {})).toBe(1);
      });

      test('sees a conversation and its messages as they were at one moment', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const { id } = await storage.write(async (tx) => {
          const conversation = sampleConversation();
          await tx.conversations.insert(accountId, conversation);
          return conversation;
        });
        const writing = Promise.all(Array.from({ length: 300 }, () => sendTo(storage, accountId, id)));
        const seen = new Set<number>();
        for (let written = false; !written; ) {
          written = await Promise.race([writing.then(() => true), nextTurn(false)]);
          const found = await storage.read.conversations.findWithMessages(accountId, id);
          expect(found?.messages.map((message) => message.sequence)).toEqual(
            Array.from({ length: found?.conversation.messageCount ?? -1 }, (_, index) => index + 1),
          );
          seen.add(found?.messages.length ?? -1);
        }
        expect(seen).toContain(300);
      });
    });

    describe('accounts', () => {
      test('come back as they were stored', async () => {
        const { storage } = await open();
        const plain = sampleAccount();
        const full = sampleAccount({ name: awkwardText, plan: 'business', requestsPerHour: 1_000_000_000 });
        await storage.write(async (tx) => {
          await tx.accounts.insert(plain);
          await tx.accounts.insert(full);
        });
        expect(await storage.read.accounts.find(plain.id)).toEqual(plain);
        expect(await storage.read.accounts.find(full.id)).toEqual(full);
        expect(await storage.read.accounts.find(ids.next('account', startMs))).toBeUndefined();
      });

      test('are listed oldest first', async () => {
        const { storage } = await open();
        const accounts = [5, 1, 4, 1, 3].map((minutes) => {
          const createdMs = startMs + minutes * 60_000;
          return sampleAccount({ id: ids.next('account', createdMs), createdAt: timestamp(createdMs) });
        });
        await storage.write(async (tx) => {
          for (const account of accounts) await tx.accounts.insert(account);
        });
        expect(await storage.read.accounts.list()).toEqual(accounts.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
      });

      test('change in name, plan and limit, each alone', async () => {
        const { storage } = await open();
        const [account, other] = [await storedAccount(storage), await storedAccount(storage)];
        const changed = { ...account, name: 'Renamed', plan: 'trial', requestsPerHour: 7 } as const;
        await storage.write(async (tx) => tx.accounts.update(changed));
        expect(await storage.read.accounts.find(account.id)).toEqual(changed);
        await storage.write(async (tx) => tx.accounts.update({ ...changed, requestsPerHour: null }));
        expect(await storage.read.accounts.find(account.id)).toEqual({ ...changed, requestsPerHour: null });
        expect(await storage.read.accounts.find(other.id)).toEqual(other);
      });

      test('start with all counters at zero', async () => {
        const { storage } = await open();
        const { id } = await storedAccount(storage);
        expect(await storage.read.accounts.totals(id)).toMatchObject({
          active: 0,
          pending: 0,
          closed: 0,
          eventSequence: 0,
        });
      });
    });

    describe('API keys', () => {
      test('come back as they were stored, by id and by secret, with their account', async () => {
        const { storage } = await open();
        const account = await storedAccount(storage);
        const keys = [
          sampleKey(),
          sampleKey({
            name: awkwardText,
            scopes: [],
            expiresAt: timestamp(startMs + 1),
            lastUsedAt: timestamp(startMs + 2),
            revokedAt: timestamp(startMs + 3),
          }),
        ].map((key) => ({ key, hash: sampleHash() }));
        await storage.write(async (tx) => {
          for (const { key, hash } of keys) await tx.apiKeys.insert(account.id, key, hash);
        });
        for (const { key, hash } of keys) {
          expect(await storage.read.apiKeys.find(account.id, key.id)).toEqual(key);
          expect(await storage.read.apiKeys.findBySecret(hash)).toMatchObject({ key, account });
        }
        expect(await storage.read.apiKeys.find(account.id, ids.next('apiKey', startMs))).toBeUndefined();
        expect(await storage.read.apiKeys.findBySecret(sampleHash())).toBeUndefined();
      });

      test('change in lastUsedAt and revokedAt and nothing else', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const [key, other] = [sampleKey(), sampleKey()];
        const used = { ...key, lastUsedAt: timestamp(startMs + 60_000) };
        const revoked = { ...used, revokedAt: timestamp(startMs + 90_000) };
        await storage.write(async (tx) => {
          await tx.apiKeys.insert(accountId, key, sampleHash());
          await tx.apiKeys.insert(accountId, other, sampleHash());
          await tx.apiKeys.update(used);
        });
        expect(await storage.read.apiKeys.find(accountId, key.id)).toEqual(used);
        await storage.write(async (tx) => tx.apiKeys.update({ ...revoked, name: 'ignored', scopes: [] }));
        expect(await storage.read.apiKeys.find(accountId, key.id)).toEqual(revoked);
        expect(await storage.read.apiKeys.find(accountId, other.id)).toEqual(other);
      });

      test('cannot share a secret', async () => {
        const { storage } = await open();
        const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
        const hash = sampleHash();
        await storage.write(async (tx) => tx.apiKeys.insert(one.id, sampleKey(), hash));
        await expect(storage.write(async (tx) => tx.apiKeys.insert(two.id, sampleKey(), hash))).rejects.toThrow();
        expect((await storage.read.apiKeys.findBySecret(hash))?.account).toEqual(one);
        expect(await storage.read.apiKeys.count(two.id)).toBe(0);
      });

      test('are paged newest first by offset and by cursor, and counted with and without the revoked', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const { id: otherId } = await storedAccount(storage);
        const keys = [3, 9, 1, 9, 5, 7].map((minute) =>
          sampleKey({
            id: ids.next('apiKey', startMs + minute * 60_000),
            createdAt: timestamp(startMs + minute * 60_000),
            revokedAt: minute === 9 ? start : null,
          }),
        );
        await storage.write(async (tx) => {
          for (const key of keys) await tx.apiKeys.insert(accountId, key, sampleHash());
          await tx.apiKeys.insert(otherId, sampleKey(), sampleHash());
        });
        const sorted = keys.toSorted((a, b) => (a.id < b.id ? 1 : -1));
        for (let limit = 1; limit <= 7; limit++) {
          for (let offset = 0; offset <= 7; offset++) {
            expect(await storage.read.apiKeys.page(accountId, { limit, offset })).toEqual({
              items: sorted.slice(offset, offset + limit),
              hasMore: sorted.length > offset + limit,
            });
          }
          for (const [index, { id: after }] of sorted.entries()) {
            expect(await storage.read.apiKeys.page(accountId, { limit, offset: 0, after })).toEqual({
              items: sorted.slice(index + 1, index + 1 + limit),
              hasMore: sorted.length > index + 1 + limit,
            });
          }
        }
        expect(await storage.read.apiKeys.count(accountId)).toBe(6);
        expect(await storage.read.apiKeys.countLive(accountId)).toBe(4);
      });
    });

    describe('the number of revocations', () => {
      test('grows with every revocation, of any account, and with nothing else', async () => {
        const { storage, beside, reopen } = await open();
        const [one, two] = [await storedAccount(storage), await storedAccount(storage)];
        const [first, second] = [sampleKey(), sampleKey()];
        const revocations = () => storage.read.apiKeys.revocations();
        const before = await revocations();
        await storage.write(async (tx) => {
          await tx.apiKeys.insert(one.id, first, sampleHash());
          await tx.apiKeys.insert(two.id, second, sampleHash());
          await tx.apiKeys.update({ ...first, lastUsedAt: timestamp(startMs + 60_000) });
          await tx.events.append(one.id, [sampleEvent(sampleConversation())]);
        });
        expect(await revocations()).toBe(before);

        await storage.write(async (tx) => tx.apiKeys.update({ ...first, revokedAt: start }));
        const afterOne = await revocations();
        expect(afterOne).toBeGreaterThan(before);
        const undone = storage.write(async (tx) => {
          await tx.apiKeys.update({ ...second, revokedAt: start });
          throw new Error('on purpose');
        });
        await expect(undone).rejects.toThrow('on purpose');
        expect(await revocations()).toBe(afterOne);

        const other = await beside();
        await other.write(async (tx) => tx.apiKeys.update({ ...second, revokedAt: start }));
        const afterTwo = await revocations();
        expect(afterTwo).toBeGreaterThan(afterOne);
        expect(await storage.write(async (tx) => tx.apiKeys.revocations())).toBe(afterTwo);
        expect(await (await reopen()).read.apiKeys.revocations()).toBe(afterTwo);
      });
    });

    describe('the key that tokens are signed with', () => {
      test('is 256 bits of its own, which stay when it is reopened and are the same beside', async () => {
        const { storage, beside, reopen } = await open();
        const key = Buffer.from(await storage.read.apiKeys.tokenKey());
        expect(key).toHaveLength(32);
        expect(key.equals(await storage.write(async (tx) => tx.apiKeys.tokenKey()))).toBe(true);
        expect(key.equals(await (await beside()).read.apiKeys.tokenKey())).toBe(true);
        expect(key.equals(await (await reopen()).read.apiKeys.tokenKey())).toBe(true);
        expect(key.equals(await (await open()).storage.read.apiKeys.tokenKey())).toBe(false);
      });
    });

    describe('conversations', () => {
      test('come back as they were stored, with every field full and with every field empty', async () => {
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

      test('keep any text and metadata that the domain lets in', async () => {
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
          { numRuns: 50 },
        );
      });

      test('change in every field but the id and the creation', async () => {
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

      test('are never overwritten on the ground of an old version', async () => {
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

      test('are found many at once, in the order of the ids, also the same one twice', async () => {
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

      test('have an external id of their own in their account, which they can give up and take', async () => {
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

      test('are paged as a plain sort would, for every sort, filter, offset and cursor', async () => {
        const { storage } = await open();
        await fc.assert(
          fc.asyncProperty(
            population(),
            fc.array(queryOf(), { minLength: 10, maxLength: 30 }),
            async (seeds, queries) => {
              const { accountId, conversations } = await populate(storage, seeds);
              for (const { filter, sort, limit, offset, cursor } of queries) {
                const after = cursor === undefined ? undefined : conversations[cursor % conversations.length];
                const rest = conversations
                  .filter((conversation) => matches(conversation, filter))
                  .sort(byPlace(sort))
                  .filter((conversation) => after === undefined || byPlace(sort)(conversation, after) > 0);
                const query: ConversationQuery = {
                  filter,
                  sort,
                  limit,
                  offset: after === undefined ? offset : 0,
                  ...(after === undefined ? {} : { after: placeOf(after) }),
                };
                expect(await storage.read.conversations.page(accountId, query)).toEqual({
                  items: rest.slice(query.offset, query.offset + limit),
                  hasMore: rest.length > query.offset + limit,
                });
              }
            },
          ),
          { numRuns: 40 },
        );
      });

      test('are each seen once by whoever follows the cursors, and the last page says that it is the last', async () => {
        const { storage } = await open();
        await fc.assert(
          fc.asyncProperty(
            population(),
            filterOf(),
            fc.constantFrom(...conversationSorts),
            fc.integer({ min: 1, max: 9 }),
            async (seeds, filter, sort, limit) => {
              const { accountId, conversations } = await populate(storage, seeds);
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
              expect(seen).toEqual(conversations.filter((one) => matches(one, filter)).sort(byPlace(sort)));
            },
          ),
          { numRuns: 40 },
        );
      });

      test('are counted as a recount would, after any inserts and changes of status', async () => {
        const { storage } = await open();
        const change = fc.record({ index: fc.nat(), status: fc.constantFrom(...statuses), fails: fc.boolean() });
        await fc.assert(
          fc.asyncProperty(
            population(),
            fc.array(change, { maxLength: 40 }),
            fc.array(filterOf(), { minLength: 5, maxLength: 10 }),
            async (seeds, changes, filters) => {
              const { accountId, conversations } = await populate(storage, seeds);
              await Promise.allSettled(
                changes.map(({ index, status, fails }) => {
                  const place = index % Math.max(1, conversations.length);
                  const previous = conversations[place];
                  if (previous === undefined) return undefined;
                  const next = { ...previous, status, version: previous.version + 1 };
                  if (!fails) conversations[place] = next;
                  return storage.write(async (tx) => {
                    await tx.conversations.update(accountId, previous, next);
                    if (fails) throw new Error('on purpose');
                  });
                }),
              );
              for (const filter of [{}, ...statuses.map((status) => ({ status })), ...filters]) {
                const count = conversations.filter((conversation) => matches(conversation, filter)).length;
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
          { numRuns: 40 },
        );
      });
    });

    describe('messages', () => {
      test('come back as they were stored, with every field full and with every field empty', async () => {
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
          sampleMessage(conversation.id, 3, { sender: 'bot', author: { id: null, name: awkwardText } }),
          sampleMessage(conversation.id, 4, { content: '👩‍👩‍👧‍👦'.repeat(2_340) }), // 16,380 code points
        ];
        await storage.write(async (tx) => {
          await tx.conversations.insert(accountId, conversation);
          for (const message of messages) await tx.messages.insert(accountId, message);
        });
        expect(await storage.read.conversations.findWithMessages(accountId, conversation.id)).toEqual({
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

      test('are found many at once, across conversations, in the order of the ids', async () => {
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

      test('cannot be put into a conversation that does not exist, or into a place that is taken', async () => {
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
        expect((await storage.read.conversations.findWithMessages(one.id, conversation.id))?.messages).toEqual([first]);
      });

      test('are read in ranges of many conversations at once, each by sequence, in the order asked', async () => {
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
                    .filter(
                      (one) => one.conversationId === conversationId && one.sequence >= from && one.sequence <= to,
                    ),
                ),
              );
            },
          ),
          { numRuns: 40 },
        );
      });
    });

    describe('events', () => {
      test('are kept as they were appended', async () => {
        const { storage, log } = await open();
        const { id: accountId } = await storedAccount(storage);
        const conversation = fullConversation();
        const message = sampleMessage(conversation.id, 1, { content: awkwardText, metadata: awkwardMetadata });
        const events = [
          sampleEvent(conversation),
          sampleEvent(conversation, {
            type: 'message.received',
            timestamp: timestamp(startMs + 1),
            data: { message, conversation },
          }),
        ];
        expect(await storage.write(async (tx) => tx.events.append(accountId, events))).toBe(2);
        expect(await log(accountId)).toEqual(events.map((event, index) => ({ ...event, sequence: index + 1 })));
      });

      test('append nothing when there are none, and say where the log ends', async () => {
        const { storage, log } = await open();
        const { id: accountId } = await storedAccount(storage);
        expect(await storage.write(async (tx) => tx.events.append(accountId, []))).toBe(0);
        await storage.write(async (tx) => tx.events.append(accountId, [sampleEvent(sampleConversation())]));
        expect(await storage.write(async (tx) => tx.events.append(accountId, []))).toBe(1);
        expect(await log(accountId)).toHaveLength(1);
      });

      test('get the sequences 1, 2, 3 … in each account, without gaps, whatever runs at once and whatever fails', async () => {
        const { storage, log } = await open();
        const work = fc.record({
          account: fc.nat(2),
          counts: fc.array(fc.nat(3), { maxLength: 3 }),
          fails: fc.boolean(),
          waits: fc.boolean(),
        });
        await fc.assert(
          fc.asyncProperty(fc.array(work, { maxLength: 40 }), async (works) => {
            const accounts = [await storedAccount(storage), await storedAccount(storage), await storedAccount(storage)];
            const running: Promise<PromiseSettledResult<{ events: NewEvent[]; last: number }>>[] = [];
            for (const { account, counts, fails, waits } of works) {
              const accountId = accounts[account]?.id ?? '';
              const write = storage.write(async (tx) => {
                const events: NewEvent[] = [];
                let last = -1;
                for (const count of counts) {
                  const added = Array.from({ length: count }, () => sampleEvent(sampleConversation()));
                  last = await tx.events.append(accountId, added);
                  events.push(...added);
                }
                if (fails) throw new Error('on purpose');
                return { events, last };
              });
              running.push(settled(write));
              if (waits) await nextTurn();
            }
            const results = await Promise.all(running);
            for (const [index, { id: accountId }] of accounts.entries()) {
              const logged = await log(accountId);
              const kept = works.flatMap((one, place) => {
                const result = results[place];
                return one.account === index && result?.status === 'fulfilled' ? [result.value] : [];
              });
              expect(logged.map((event) => event.sequence)).toEqual(logged.map((_, place) => place + 1));
              expect(new Set(logged.map((event) => event.id))).toEqual(
                new Set(kept.flatMap(({ events }) => events.map((event) => event.id))),
              );
              for (const { events, last } of kept) {
                if (events.length === 0) continue;
                const mine = logged.slice(last - events.length, last);
                expect(mine.map((event) => event.id)).toEqual(events.map((event) => event.id));
              }
              expect((await storage.read.accounts.totals(accountId)).eventSequence).toBe(logged.length);
            }
          }),
          { numRuns: 40 },
        );
      });

      test('cannot be appended to an account that does not exist', async () => {
        const { storage } = await open();
        const append = storage.write(async (tx) =>
          tx.events.append(ids.next('account', startMs), [sampleEvent(sampleConversation())]),
        );
        await expect(append).rejects.toThrow();
      });

      test('belong to a log with a name of its own, which stays when it is reopened', async () => {
        const { storage, reopen } = await open();
        const epoch = await storage.read.events.epoch();
        expect(epoch).toMatch(/^[0-9a-z]{8,}$/i);
        expect(await storage.write(async (tx) => tx.events.epoch())).toBe(epoch);
        expect(await (await reopen()).read.events.epoch()).toBe(epoch);
        expect(await (await open()).storage.read.events.epoch()).not.toBe(epoch);
      });
    });

    describe('reading the event log', () => {
      test('finds its bounds: empty, after appends, after removing a part, and after removing all', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const bounds = () => storage.read.events.bounds(accountId);
        expect(await bounds()).toEqual({ first: 1, last: 0 });
        await appendAt(storage, accountId, [1, 2, 3, 4, 5]);
        expect(await bounds()).toEqual({ first: 1, last: 5 });
        await storage.write(async (tx) => tx.events.prune(startMs + 3, 100));
        expect(await bounds()).toEqual({ first: 3, last: 5 });
        expect(await storage.write(async (tx) => tx.events.bounds(accountId))).toEqual({ first: 3, last: 5 });
        await storage.write(async (tx) => tx.events.prune(startMs + 6, 100));
        expect(await bounds()).toEqual({ first: 6, last: 5 });
        await appendAt(storage, accountId, [7]);
        expect(await bounds()).toEqual({ first: 6, last: 6 });
        expect(await storage.read.events.bounds(ids.next('account', startMs))).toEqual({ first: 1, last: 0 });
      });

      test('gives events back as they were appended', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const conversation = fullConversation();
        const lead = sampleLead({ name: awkwardText, metadata: awkwardMetadata });
        const events = [
          sampleEvent(conversation),
          sampleEvent(conversation, {
            type: 'lead.captured',
            timestamp: timestamp(startMs + 1),
            conversationId: null,
            data: { lead, conversation: null },
          }),
        ];
        await storage.write(async (tx) => tx.events.append(accountId, events));
        const { events: found } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 9, span: 9 });
        expect(found.map((event) => ({ ...event, data: JSON.parse(event.data) }))).toEqual(
          events.map((event, index) => ({ ...event, sequence: index + 1 })),
        );
      });

      test('from any place, with any filter, limit and span, misses nothing of what it says to have looked at', async () => {
        const { storage } = await open();
        const question = fc.record({
          from: fc.nat(45),
          filter: eventFilterOf(),
          limit: fc.integer({ min: 1, max: 12 }),
          span: fc.integer({ min: 1, max: 30 }),
        });
        await fc.assert(
          fc.asyncProperty(
            eventLog(),
            fc.array(question, { minLength: 10, maxLength: 30 }),
            async (seeds, questions) => {
              const { accountId, log, last } = await populateLog(storage, seeds);
              for (const { from, filter, limit, span } of questions) {
                const page = await storage.read.events.after(accountId, from, { filter: named(filter), limit, span });
                const end = Math.min(from + span, Math.max(from, last));
                const fits = log.filter(
                  (event) => event.sequence > from && event.sequence <= end && fitsFilter(event, named(filter)),
                );
                expect(page.events.map(({ id }) => id)).toEqual(fits.slice(0, limit).map(({ id }) => id));
                // It has looked at all of the span, unless the page was full before.
                if (page.events.length < limit) expect(page.scannedTo).toBe(end);
                else expect(page.scannedTo).toBeGreaterThanOrEqual(page.events.at(-1)?.sequence ?? Infinity);
                const passed = log.filter((event) => event.sequence > from && event.sequence <= page.scannedTo);
                expect(page.events.map(({ sequence }) => sequence)).toEqual(
                  passed.filter((event) => fitsFilter(event, named(filter))).map(({ sequence }) => sequence),
                );
              }
            },
          ),
          { numRuns: 40 },
        );
      });

      test('step by step meets every event that fits exactly once, whatever the filter, limit and span', async () => {
        const { storage } = await open();
        await fc.assert(
          fc.asyncProperty(
            eventLog(),
            eventFilterOf(),
            fc.integer({ min: 1, max: 7 }),
            fc.integer({ min: 1, max: 20 }),
            async (seeds, filter, limit, span) => {
              const { accountId, log, last } = await populateLog(storage, seeds);
              const met: StoredEvent[] = [];
              const { first } = await storage.read.events.bounds(accountId);
              for (let place = first - 1; place < last; ) {
                const page = await storage.read.events.after(accountId, place, { filter: named(filter), limit, span });
                // One that does not move on would go round for ever, and no timer would end it.
                expect(page.scannedTo).toBeGreaterThan(place);
                met.push(...page.events);
                place = page.scannedTo;
              }
              expect(met.map(({ sequence, id }) => ({ sequence, id }))).toEqual(
                log.filter((event) => fitsFilter(event, named(filter))).map(({ sequence, id }) => ({ sequence, id })),
              );
            },
          ),
          { numRuns: 40 },
        );
      });

      test('finds where the logs of many accounts end at once, in the order asked', async () => {
        const { storage } = await open();
        const accounts = [await storedAccount(storage), await storedAccount(storage), await storedAccount(storage)];
        const [one, two, none] = accounts.map(({ id }) => id) as [string, string, string];
        await appendAt(storage, one, [1, 2, 3]);
        await appendAt(storage, two, [1]);
        await storage.write(async (tx) => tx.events.prune(startMs + 10, 100));
        const asked = [two, none, one, 'no id at all', two, "'"];
        expect(await storage.read.events.lastSequences(asked)).toEqual([1, 0, 3, 0, 1, 0]);
        expect(await storage.read.events.lastSequences([])).toEqual([]);
      });
    });

    describe('removing old events', () => {
      test('takes them from the front of each log alone, all that there are, and never more than it may', async () => {
        const { storage } = await open();
        const time = fc.nat(9);
        const step = fc.record({ before: fc.nat(10), limit: fc.integer({ min: 1, max: 12 }) });
        await fc.assert(
          fc.asyncProperty(
            // Clocks go back, so times are in no order.
            fc.array(fc.array(time, { maxLength: 12 }), { minLength: 1, maxLength: 4 }),
            fc.array(step, { maxLength: 6 }),
            async (logs, steps) => {
              await storage.write(async (tx) => tx.events.prune(Number.MAX_SAFE_INTEGER, 1_000));
              const kept: { accountId: string; times: number[]; length: number }[] = [];
              for (const times of logs) {
                const { id: accountId } = await storedAccount(storage);
                await appendAt(storage, accountId, times);
                kept.push({ accountId, times: [...times], length: times.length });
              }
              for (const { before, limit } of steps) {
                const removed = await storage.write(async (tx) => tx.events.prune(startMs + before, limit));
                const old = kept.map(({ times }) => {
                  const young = times.findIndex((each) => each >= before);
                  return young === -1 ? times.length : young;
                });
                const sum = old.reduce((all, each) => all + each, 0);
                expect(removed).toBe(Math.min(limit, sum));
                let gone = 0;
                for (const [index, { accountId, times, length }] of kept.entries()) {
                  const all = { filter: {}, limit: 100, span: 100 };
                  const { events } = await storage.read.events.after(accountId, 0, all);
                  const sequences = events.map(({ sequence }) => sequence);
                  const first = length - sequences.length + 1;
                  expect(sequences, 'no hole').toEqual(sequences.map((_, place) => first + place));
                  expect(await storage.read.events.bounds(accountId)).toEqual({ first, last: length });
                  const taken = times.length - sequences.length;
                  expect(taken, 'nothing young').toBeLessThanOrEqual(old[index] ?? 0);
                  times.splice(0, taken);
                  gone += taken;
                }
                expect(gone).toBe(removed);
              }
              for (const { accountId, length } of kept) {
                const event = sampleEvent(sampleConversation());
                const last = await storage.write(async (tx) => tx.events.append(accountId, [event]));
                expect(last, 'the numbers go on').toBe(length + 1);
              }
            },
          ),
          { numRuns: 40 },
        );
      });

      test('is not held up by an account whose old events lie behind a young one', async () => {
        const { storage } = await open();
        const [stuck, other] = [await storedAccount(storage), await storedAccount(storage)];
        await appendAt(storage, stuck.id, [50, ...Array.from({ length: 20 }, () => 1)]);
        await appendAt(storage, other.id, [2, 3, 4]);
        expect(await storage.write(async (tx) => tx.events.prune(startMs + 10, 5))).toBe(3);
        expect(await storage.read.events.bounds(stuck.id)).toEqual({ first: 1, last: 21 });
        expect(await storage.read.events.bounds(other.id)).toEqual({ first: 4, last: 3 });
      });

      test('that is undone leaves the log as it was', async () => {
        const { storage, log } = await open();
        const { id: accountId } = await storedAccount(storage);
        await appendAt(storage, accountId, [1, 2, 3]);
        const undone = storage.write(async (tx) => {
          expect(await tx.events.prune(startMs + 10, 2)).toBe(2);
          throw new Error('on purpose');
        });
        await expect(undone).rejects.toThrow('on purpose');
        expect(await log(accountId)).toHaveLength(3);
      });
    });

    describe('who watches', () => {
      test('is told of every account whose log has grown, whatever else is written at the same time', async () => {
        const { storage } = await open();
        const work = fc.record({ account: fc.nat(3), count: fc.nat(2), fails: fc.boolean(), waits: fc.boolean() });
        await fc.assert(
          fc.asyncProperty(fc.array(work, { maxLength: 30 }), async (works) => {
            const accounts = await Promise.all(Array.from({ length: 4 }, () => storedAccount(storage)));
            const told = new Set<string>();
            const stop = storage.watch((touched) => {
              for (const accountId of touched?.accountIds ?? accounts.map(({ id }) => id)) told.add(accountId);
            });
            const grown = new Set<string>();
            const running: Promise<unknown>[] = [];
            for (const { account, count, fails, waits } of works) {
              const accountId = accounts[account]?.id ?? '';
              const events = Array.from({ length: count }, () => sampleEvent(sampleConversation()));
              const write = storage.write(async (tx) => {
                await tx.events.append(accountId, events);
                if (fails) throw new Error('on purpose');
              });
              // At once when the promise resolves, not some time later.
              running.push(
                settled(write).then(({ status }) => {
                  if (status === 'fulfilled' && count > 0) expect(told).toContain(accountId);
                }),
              );
              if (count > 0 && !fails) grown.add(accountId);
              if (waits) await nextTurn();
            }
            await Promise.all(running);
            stop();
            expect([...grown].filter((accountId) => !told.has(accountId))).toEqual([]);
          }),
          { numRuns: 40 },
        );
      });

      test('finds, when it is told, what it is told of', async () => {
        const { storage } = await open();
        const accounts = await Promise.all(Array.from({ length: 3 }, () => storedAccount(storage)));
        const found: Promise<[string, number]>[] = [];
        const stop = storage.watch((touched) => {
          for (const accountId of touched?.accountIds ?? []) {
            found.push((async () => [accountId, (await storage.read.events.bounds(accountId)).last])());
          }
        });
        await Promise.all(accounts.map(({ id }, index) => appendAt(storage, id, Array(index + 1).fill(1))));
        stop();
        expect(new Map(await Promise.all(found))).toEqual(new Map(accounts.map(({ id }, index) => [id, index + 1])));
      });

      test('is told of a revocation, and not told whose log has grown then: it may be anything', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const key = sampleKey();
        await storage.write(async (tx) => tx.apiKeys.insert(accountId, key, sampleHash()));
        const told: (Touched | undefined)[] = [];
        const stop = storage.watch((touched) => void told.push(touched));
        // In one group, so that neither may stand in the way of the other.
        await Promise.all([
          appendAt(storage, accountId, [1]),
          storage.write(async (tx) => tx.apiKeys.update({ ...key, revokedAt: start })),
        ]);
        stop();
        expect(told).toContain(undefined);
      });

      test('is told beside others, each until it stops by itself', async () => {
        const { storage, beside } = await open();
        const other = await beside();
        const { id: accountId } = await storedAccount(storage);
        const told = [0, 0];
        const stops = told.map((_, index) =>
          storage.watch(() => {
            told[index] = (told[index] ?? 0) + 1;
          }),
        );
        await appendAt(storage, accountId, [1]);
        expect(told).toEqual([1, 1]);
        stops[0]?.();
        await appendAt(storage, accountId, [1]);
        expect(told).toEqual([1, 2]);
        stops[0]?.(); // again: the other one goes on
        await appendAt(storage, accountId, [1]);
        expect(told).toEqual([1, 3]);
        await appendAt(other, accountId, [1]);
        await until(() => (told[1] ?? 0) > 3);
        stops[1]?.();
        const before = [...told];
        await appendAt(storage, accountId, [1]);
        expect(told).toEqual(before);
      });

      test.each(['events', 'revocations'] as const)(
        'is told within 100 ms of %s that another process has committed',
        async (kind) => {
          const { storage, beside } = await open();
          const other = await beside();
          const { id: accountId } = await storedAccount(storage);
          const keys = Array.from({ length: 9 }, () => sampleKey());
          await storage.write(async (tx) => {
            for (const key of keys) await tx.apiKeys.insert(accountId, key, sampleHash());
          });
          let told = 0;
          const stop = storage.watch(() => {
            told++;
          });
          const look = () =>
            kind === 'events' ? storage.read.events.lastSequences([accountId]) : storage.read.apiKeys.revocations();
          const took: number[] = [];
          let seen = await look();
          for (const key of keys) {
            const before = told;
            const startedMs = performance.now();
            await (kind === 'events'
              ? appendAt(other, accountId, [1])
              : other.write(async (tx) => tx.apiKeys.update({ ...key, revokedAt: start })));
            await until(() => told > before);
            took.push(performance.now() - startedMs);
            const now = await look();
            expect(now).not.toEqual(seen);
            seen = now;
          }
          stop();
          // The middle one: the machine that a test runs on has its own pauses.
          expect(took.toSorted((a, b) => a - b)[4]).toBeLessThan(100);
        },
      );

      test('costs no timer any more once the last one has stopped', async () => {
        const { storage } = await open();
        const timers = watchTimers();
        const stops = [storage.watch(() => {}), storage.watch(() => {})];
        stops[0]?.();
        stops[1]?.();
        expect(await timers.left()).toEqual([]);
        const stop = storage.watch(() => {});
        await storage.close();
        expect(await timers.left()).toEqual([]);
        stop();
      });
    });

    describe('leads', () => {
      test('come back as they were stored, with every field full and with every field empty', async () => {
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

      test('are found many at once, in the order of the ids, also the same one twice', async () => {
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

      test('are paged newest first as a plain sort would, by offset and by cursor, and counted as a recount would', async () => {
        const { storage } = await open();
        // A few milliseconds for many leads: most of them tie.
        const seed = fc.record({ createdMs: fc.nat(5), fails: fc.boolean() });
        const question = fc.record({
          limit: fc.integer({ min: 1, max: 9 }),
          offset: fc.oneof(fc.nat(25), fc.constant(2 ** 31 - 1)),
          cursor: fc.option(fc.nat()),
        });
        await fc.assert(
          fc.asyncProperty(
            fc.array(seed, { maxLength: 20 }),
            fc.array(question, { minLength: 5, maxLength: 15 }),
            async (seeds, questions) => {
              const { id: accountId } = await storedAccount(storage);
              const leads = seeds.map(({ createdMs }) => {
                const atMs = startMs + createdMs;
                return sampleLead({ id: ids.next('lead', atMs), createdAt: timestamp(atMs) });
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
              for (const { limit, offset, cursor } of questions) {
                const after: Lead | undefined = cursor === null ? undefined : sorted[cursor % sorted.length];
                const rest = after === undefined ? sorted.slice(offset) : sorted.slice(sorted.indexOf(after) + 1);
                const query = after === undefined ? { limit, offset } : { limit, offset: 0, after: after.id };
                expect(await storage.read.leads.page(accountId, query)).toEqual({
                  items: rest.slice(0, limit),
                  hasMore: rest.length > limit,
                });
              }
              expect(await storage.read.leads.count(accountId)).toBe(sorted.length);
              expect(await storage.write(async (tx) => tx.leads.count(accountId))).toBe(sorted.length);
            },
          ),
          { numRuns: 40 },
        );
      });

      test('cannot be put into an account that does not exist, or twice into one', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        const lead = sampleLead();
        await storage.write(async (tx) => tx.leads.insert(accountId, lead));
        const nowhere = ids.next('account', startMs);
        await expect(storage.write(async (tx) => tx.leads.insert(nowhere, sampleLead()))).rejects.toThrow();
        await expect(storage.write(async (tx) => tx.leads.insert(accountId, lead))).rejects.toThrow();
        expect(await storage.read.leads.count(accountId)).toBe(1);
      });
    });

    describe('what happened', () => {
      const happening = fc.record<Happenings>(
        {
          ...(Object.fromEntries(countNames.map((name) => [name, fc.integer({ min: 1, max: 3 })])) as Record<
            CountName,
            fc.Arbitrary<number>
          >),
          firstResponseMs: fc.integer({ min: 0, max: 1e12 }),
          resolutionMs: fc.oneof(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 1e12 })),
        },
        { requiredKeys: [] },
      );
      // Around the ends of hours and of days of UTC.
      const quarter = fc.integer({ min: 19_000 * 96 - 100, max: 19_000 * 96 + 250 });

      function tallyOf(durations: readonly number[]): DurationTally {
        const buckets = Map.groupBy(durations.map(bucketOf), (bucket) => bucket);
        const ascending = [...buckets].sort(([one], [other]) => one - other);
        return {
          count: durations.length,
          sumMs: durations.reduce((sum, each) => sum + each, 0),
          buckets: ascending.flatMap(([bucket, { length }]) => [bucket, length]),
        };
      }

      function sumsOf(all: readonly Happenings[]): HappeningSums {
        const counts = countNames.map((name) => [name, all.reduce((sum, each) => sum + (each[name] ?? 0), 0)]);
        const durations = (name: 'firstResponseMs' | 'resolutionMs') =>
          tallyOf(all.map((each) => each[name]).filter((each) => each !== undefined));
        return {
          ...(Object.fromEntries(counts) as Record<CountName, number>),
          firstResponses: durations('firstResponseMs'),
          resolutions: durations('resolutionMs'),
        };
      }

      test('is summed up over any ranges of quarter hours, each account by itself', async () => {
        const { storage, reopen } = await open();
        const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
        const added: { accountId: string; at: number; happenings: Happenings }[] = [];
        const adding = fc.record({ accountId: fc.constantFrom(one.id, other.id), at: quarter, happenings: happening });
        const range = fc.tuple(quarter, quarter).map(([from, to]) => ({ from, to }));
        const check = async (from: Storage, ranges: readonly QuarterRange[]) => {
          for (const { id } of [one, other]) {
            expect(await from.read.analytics.sums(id, ranges)).toEqual(
              ranges.map((within) => {
                const fits = added.filter(
                  ({ accountId, at }) => accountId === id && within.from <= at && at < within.to,
                );
                return sumsOf(fits.map(({ happenings }) => happenings));
              }),
            );
          }
        };
        await fc.assert(
          fc.asyncProperty(
            fc.array(adding, { maxLength: 30 }),
            fc.array(range, { maxLength: 8 }),
            async (additions, ranges) => {
              await storage.write(async (tx) => {
                for (const { accountId, at, happenings } of additions) {
                  await tx.analytics.add(accountId, at, happenings);
                }
              });
              added.push(...additions);
              await check(storage, ranges);
            },
          ),
          { numRuns: 30 },
        );
        await check(await reopen(), [{ from: 0, to: 20_000 * 96 }]);
      });

      test('is not counted by a work that is undone, nor for an account that does not exist', async () => {
        const { storage } = await open();
        const { id } = await storedAccount(storage);
        const undone = storage.write(async (tx) => {
          await tx.analytics.add(id, 7, { leads: 1, resolutionMs: 1_000 });
          throw new DomainError('INTERNAL', 'on purpose');
        });
        await expect(undone).rejects.toThrow('on purpose');
        expect(await storage.read.analytics.sums(id, [{ from: 0, to: 10 }])).toEqual([sumsOf([])]);
        await expect(storage.write(async (tx) => tx.analytics.add('acct_none', 7, { leads: 1 }))).rejects.toThrow();
      });

      test('first in a conversation is its conversion, once, whatever else of it changes', async () => {
        const { storage } = await open();
        const [{ id }, { id: otherId }] = [await storedAccount(storage), await storedAccount(storage)];
        const conversation = sampleConversation();
        await storage.write(async (tx) => tx.conversations.insert(id, conversation));
        const mark = (accountId: string) =>
          storage.write(async (tx) => tx.conversations.markConverted(accountId, conversation.id));
        expect(await mark(otherId)).toBe(false);
        expect((await Promise.all([mark(id), mark(id), mark(id)])).sort()).toEqual([false, false, true]);
        expect(await storage.read.conversations.find(id, conversation.id)).toEqual(conversation);
        await storage.write(async (tx) =>
          tx.conversations.update(id, conversation, { ...conversation, subject: 'Changed', version: 2 }),
        );
        expect(await mark(id)).toBe(false);
      });
    });

    webhookContract(open);

    describe('rate windows', () => {
      test('hold the sum of what was added to each minute, until they are pruned', async () => {
        const { storage } = await open();
        const minute = fc.integer({ min: 100, max: 108 });
        const step = fc.oneof(
          fc.record({ kind: fc.constant('add' as const), minute, count: fc.integer({ min: -5, max: 20 }) }),
          fc.record({ kind: fc.constant('prune' as const), minute, count: fc.constant(0) }),
        );
        await fc.assert(
          fc.asyncProperty(fc.array(step, { maxLength: 30 }), minute, async (steps, from) => {
            const { id: accountId } = await storedAccount(storage);
            const { id: otherId } = await storedAccount(storage);
            const counts = new Map<number, number>();
            await storage.write(async (tx) => tx.rateWindows.add(otherId, 99, 1));
            await Promise.all(
              steps.map((step) => {
                if (step.kind === 'add') counts.set(step.minute, (counts.get(step.minute) ?? 0) + step.count);
                else for (const key of [...counts.keys()]) if (key < step.minute) counts.delete(key);
                return storage.write(async (tx) =>
                  step.kind === 'add'
                    ? tx.rateWindows.add(accountId, step.minute, step.count)
                    : tx.rateWindows.prune(accountId, step.minute),
                );
              }),
            );
            const expected: RateWindow[] = [...counts]
              .filter(([key, count]) => key >= from && count > 0)
              .sort(([a], [b]) => a - b)
              .map(([key, count]) => ({ minute: key, count }));
            expect(await storage.read.rateWindows.since(accountId, from)).toEqual(expected);
            expect(await storage.read.rateWindows.since(otherId, 0)).toEqual([{ minute: 99, count: 1 }]);
          }),
          { numRuns: 40 },
        );
      });

      test('leave out a minute of which everything was given back', async () => {
        const { storage } = await open();
        const { id: accountId } = await storedAccount(storage);
        await storage.write(async (tx) => {
          await tx.rateWindows.add(accountId, 10, 5);
          await tx.rateWindows.add(accountId, 11, 5);
          await tx.rateWindows.add(accountId, 10, -5);
          await tx.rateWindows.add(accountId, 11, -2);
        });
        expect(await storage.read.rateWindows.since(accountId, 0)).toEqual([{ minute: 11, count: 3 }]);
      });
    });

    describe('kept results', () => {
      const kept = (facts: Partial<KeptResult> = {}): KeptResult => ({
        fingerprint: sampleHash(),
        result: JSON.stringify({ text: awkwardText }),
        conversationId: null,
        createdAtMs: startMs,
        ...facts,
      });

      test('come back as they were put, by account and key, also after reopening', async () => {
        const { storage, reopen } = await open();
        const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
        const results = [kept(), kept({ conversationId: ids.next('conversation', startMs) }), kept({ result: null })];
        await storage.write(async (tx) => {
          for (const [index, result] of results.entries()) await tx.keptResults.put(one.id, `key ${index}`, result);
          await tx.keptResults.put(other.id, 'key 0', kept({ result: 'theirs' }));
        });
        const { read } = await reopen();
        for (const [index, { fingerprint, ...facts }] of results.entries()) {
          const found = await read.keptResults.find(one.id, `key ${index}`);
          expect(found).toMatchObject(facts);
          expect([...(found?.fingerprint ?? [])]).toEqual([...fingerprint]);
        }
        expect(await read.keptResults.find(other.id, 'key 0')).toMatchObject({ result: 'theirs' });
        expect(await read.keptResults.find(other.id, 'key 1')).toBeUndefined();
        expect(await read.keptResults.find(one.id, 'KEY 0')).toBeUndefined();
      });

      test('take the place of what their key had before, unless the work is undone', async () => {
        const { storage } = await open();
        const { id } = await storedAccount(storage);
        const [first, second] = [kept({ result: 'first' }), kept({ result: 'second', createdAtMs: startMs + 1 })];
        await storage.write(async (tx) => tx.keptResults.put(id, 'key', first));
        const undone = storage.write(async (tx) => {
          await tx.keptResults.put(id, 'key', second);
          expect(await tx.keptResults.find(id, 'key')).toMatchObject({ result: 'second' });
          throw new Error('on purpose');
        });
        await expect(undone).rejects.toThrow('on purpose');
        expect(await storage.read.keptResults.find(id, 'key')).toMatchObject({ result: 'first', createdAtMs: startMs });
        await storage.write(async (tx) => tx.keptResults.put(id, 'key', second));
        expect(await storage.read.keptResults.find(id, 'key')).toMatchObject({ result: 'second' });
      });

      test('are removed oldest first, of all accounts, before a time and never more than may be', async () => {
        const { storage } = await open();
        const accounts = [await storedAccount(storage), await storedAccount(storage)];
        await storage.write(async (tx) => {
          for (let index = 0; index < 10; index++) {
            const account = accounts[index % 2] as (typeof accounts)[0];
            await tx.keptResults.put(account.id, `key ${index}`, kept({ createdAtMs: startMs + index }));
          }
        });
        const left = async () => {
          const found = Array.from({ length: 10 }, (_, index) =>
            storage.read.keptResults.find(accounts[index % 2]?.id ?? '', `key ${index}`),
          );
          return (await Promise.all(found)).flatMap((one) => (one === undefined ? [] : [one.createdAtMs - startMs]));
        };
        const prune = (before: number, limit: number) =>
          storage.write(async (tx) => tx.keptResults.prune(startMs + before, limit));
        expect(await prune(7, 3)).toBe(3);
        expect(await left()).toEqual([3, 4, 5, 6, 7, 8, 9]);
        expect(await prune(7, 10)).toBe(4);
        expect(await left()).toEqual([7, 8, 9]);
        expect(await prune(7, 10)).toBe(0);
      });
    });

    describe('erasing a conversation', () => {
      /** A conversation with something of everything that can tell of one. */
      async function tell(storage: Storage, accountId: string, status: StoredConversation['status'] = 'active') {
        const conversation = sampleConversation({ status, externalId: ids.next('lead', startMs), messageCount: 3 });
        const messages = [1, 2, 3].map((sequence) => sampleMessage(conversation.id, sequence));
        const leads = [1, 2].map(() => sampleLead({ conversationId: conversation.id }));
        const webhook = sampleWebhook();
        const event = sampleEvent(conversation);
        const delivery = sampleDelivery(webhook.id, { eventId: event.id, attemptCount: 2 });
        const attempts = [sampleAttempt(), sampleAttempt({ responseStatus: 500 })];
        const key = ids.next('apiKey', startMs);
        await storage.write(async (tx) => {
          await tx.conversations.insert(accountId, conversation);
          for (const message of messages) await tx.messages.insert(accountId, message);
          for (const lead of leads) await tx.leads.insert(accountId, lead);
          await tx.webhooks.insert(accountId, webhook);
          const eventSequence = await tx.events.append(accountId, [event]);
          await tx.deliveries.insert({ ...delivery, eventSequence });
          for (const [index, attempt] of attempts.entries()) {
            await tx.deliveries.insertAttempt(delivery.id, index + 1, attempt);
          }
          await tx.keptResults.put(accountId, key, {
            fingerprint: sampleHash(),
            result: '"told"',
            conversationId: conversation.id,
            createdAtMs: startMs,
          });
        });
        return { conversation, messages, leads, event, delivery, key };
      }

      type Told = Awaited<ReturnType<typeof tell>>;

      /** All that is to be found of one. */
      async function trace({ read }: Storage, accountId: string, told: Told) {
        const { conversation, messages, leads, event, delivery, key } = told;
        const { events } = await read.events.after(accountId, 0, { filter: {}, limit: 100, span: 100 });
        const [attempts] = await read.deliveries.attempts(accountId, [{ deliveryId: delivery.id, from: 1, to: 9 }]);
        return {
          conversation: await read.conversations.findWithMessages(accountId, conversation.id),
          byName: await read.conversations.idByExternalId(accountId, conversation.externalId ?? ''),
          messages: await read.messages.findMany(
            accountId,
            messages.map(({ id }) => id),
          ),
          leads: await read.leads.findMany(
            accountId,
            leads.map(({ id }) => id),
          ),
          event: events.find(({ id }) => id === event.id),
          answers: attempts?.map(({ responseStatus, responseBody }) => [responseStatus, responseBody]),
          result: (await read.keptResults.find(accountId, key))?.result,
        };
      }

      const erase = (storage: Storage, accountId: string, { conversation }: Told) =>
        storage.write(async (tx) => tx.conversations.erase(accountId, conversation));

      test('removes it with all that tells of it, and leaves the places of the log and its deliveries', async () => {
        const { storage, reopen } = await open();
        const { id } = await storedAccount(storage);
        const told = await tell(storage, id);
        const before = await trace(storage, id, told);
        await erase(storage, id, told);
        const expected = {
          conversation: undefined,
          byName: undefined,
          messages: [undefined, undefined, undefined],
          leads: [undefined, undefined],
          event: { ...before.event, data: '{"erased":true}' },
          answers: [
            [200, null],
            [500, null],
          ],
          result: null,
        };
        expect(await trace(storage, id, told)).toEqual(expected);
        expect(await trace(await reopen(), id, told)).toEqual(expected);
      });

      test('touches no other conversation and no other account, and keeps the counters right', async () => {
        const { storage } = await open();
        const [one, other] = [await storedAccount(storage), await storedAccount(storage)];
        const told = await tell(storage, one.id, 'closed');
        const beside = [await tell(storage, one.id, 'closed'), await tell(storage, one.id, 'pending')];
        const theirs = await tell(storage, other.id);
        const traces = () =>
          Promise.all([
            ...beside.map((each) => trace(storage, one.id, each)),
            trace(storage, other.id, theirs),
            storage.read.accounts.totals(other.id),
          ]);
        const before = await traces();
        await erase(storage, one.id, told);
        expect(await traces()).toEqual(before);
        expect(await storage.read.accounts.totals(one.id)).toMatchObject({
          active: 0,
          pending: 1,
          closed: 1,
          eventSequence: 3,
        });
        expect(await storage.read.leads.count(one.id)).toBe(4);
        expect(await storage.read.conversations.count(one.id, {})).toBe(2);
      });

      test('that is undone has erased nothing', async () => {
        const { storage } = await open();
        const { id } = await storedAccount(storage);
        const told = await tell(storage, id);
        const before = await trace(storage, id, told);
        const erasures = await storage.read.events.erasures();
        const undone = storage.write(async (tx) => {
          await tx.conversations.erase(id, told.conversation);
          throw new Error('on purpose');
        });
        await expect(undone).rejects.toThrow('on purpose');
        expect(await trace(storage, id, told)).toEqual(before);
        expect(await storage.read.events.erasures()).toBe(erasures);
        expect(await storage.read.accounts.totals(id)).toMatchObject({ active: 1 });
      });

      /** Adds so much to a conversation that no transaction should erase it alone: another of everything, many times. */
      async function enlarge(storage: Storage, accountId: string, { conversation, delivery }: Told) {
        const more = Array.from({ length: 300 }, (_, index) => {
          const event = sampleEvent(conversation, { type: 'message.received' });
          return {
            message: sampleMessage(conversation.id, index + 4),
            lead: sampleLead({ conversationId: conversation.id }),
            event,
            delivery: sampleDelivery(delivery.webhookId, { eventId: event.id, attemptCount: 1, status: 'failed' }),
            key: ids.next('apiKey', startMs),
          };
        });
        await storage.write(async (tx) => {
          for (const one of more) {
            await tx.messages.insert(accountId, one.message);
            await tx.leads.insert(accountId, one.lead);
            const eventSequence = await tx.events.append(accountId, [one.event]);
            await tx.deliveries.insert({ ...one.delivery, eventSequence });
            await tx.deliveries.insertAttempt(one.delivery.id, 1, sampleAttempt());
            await tx.keptResults.put(accountId, one.key, {
              fingerprint: sampleHash(),
              result: '"told"',
              conversationId: conversation.id,
              createdAtMs: startMs,
            });
          }
        });
        return more;
      }

      /** All that is to be found of what was added, each kind by itself. */
      async function traceMore(
        { read, write }: Storage,
        accountId: string,
        { conversation, delivery }: Told,
        more: Awaited<ReturnType<typeof enlarge>>,
      ) {
        const named = <T extends 'message' | 'lead' | 'delivery'>(kind: T) => more.map((one) => one[kind].id);
        const asked = named('delivery').map((deliveryId) => ({ deliveryId, from: 1, to: 9 }));
        const all = { filter: {}, limit: 1_000, span: 1_000 };
        const claimed = await write(async (tx) => {
          const found = await tx.deliveries.findForAttempts(named('delivery'));
          return found.map((one) => one?.event?.data);
        });
        return {
          messages: await read.messages.findMany(accountId, named('message')),
          ranges: await read.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 500 }]),
          leads: [
            ...(await read.leads.findMany(accountId, named('lead'))),
            await read.leads.find(accountId, more[7]?.lead.id ?? ''),
          ],
          leadPage: (await read.leads.page(accountId, { limit: 100, offset: 0 })).items,
          events: (await read.events.after(accountId, 0, all)).events.map(({ data }) => data),
          ofIt: (
            await read.events.after(accountId, 0, { ...all, filter: { conversationId: conversation.id } })
          ).events.map(({ data }) => data),
          claimed,
          answers: (await read.deliveries.attempts(accountId, asked)).flat().map(({ responseBody }) => responseBody),
          results: await Promise.all(more.map(({ key }) => read.keptResults.find(accountId, key))).then((found) =>
            found.map((one) => one?.result),
          ),
          page: (await read.conversations.page(accountId, { filter: {}, sort: '-createdAt', limit: 9, offset: 0 }))
            .items,
          counts: [
            await read.conversations.count(accountId, {}),
            await read.conversations.count(accountId, { createdAfter: startMs - 1 }),
            await read.leads.count(accountId),
          ],
          webhookId: delivery.webhookId,
        };
      }

      test('of a large one takes it out of sight at once, and away in many transactions, the last of which says so', async () => {
        const { storage, beside, reopen } = await open();
        const [{ id }, other] = [await storedAccount(storage), await storedAccount(storage)];
        const theirs = await tell(storage, other.id);
        const untouched = await trace(storage, other.id, theirs);
        const told = await tell(storage, id);
        const before = await trace(storage, id, told);
        const more = await enlarge(storage, id, told);
        const all = <T>(value: T) => more.map(() => value);
        const erased = '{"erased":true}';
        const gone = {
          messages: all(undefined),
          ranges: [[]],
          leads: [...all(undefined), undefined],
          leadPage: [],
          events: [erased, ...all(erased)],
          ofIt: [erased, ...all(erased)],
          claimed: all(erased),
          answers: all(null),
          results: all(null),
          page: [],
          counts: [0, 0, 0],
          webhookId: told.delivery.webhookId,
        };
        expect(await traceMore(storage, id, told, more)).not.toMatchObject({ leadPage: [] });
        const erasures = await storage.read.events.erasures();
        await erase(storage, id, told);
        const others = await beside();
        const state = async () => ({
          ...(await trace(others, id, told)),
          ...(await traceMore(others, id, told, more)),
          theirs: await trace(others, other.id, theirs),
          totals: await others.read.accounts.totals(id),
          erasures: await others.read.events.erasures(),
        });
        const expected = {
          conversation: undefined,
          byName: undefined,
          event: { ...before.event, data: erased },
          result: null,
          ...gone,
          theirs: untouched,
          totals: { ...(await storage.read.accounts.totals(id)), active: 0, eventSequence: 301 },
          erasures: erasures + 1,
        };
        expect(await state()).toEqual(expected);
        expect(await storage.read.conversations.erasing()).toEqual([{ accountId: id, id: told.conversation.id }]);
        // It cannot be begun anew, and nobody else's goes on by its id.
        await erase(storage, id, told);
        expect(await storage.write(async (tx) => tx.conversations.eraseMore(other.id, told.conversation.id))).toBe(
          true,
        );
        let steps = 0;
        for (let isGone = false; !isGone; steps++) {
          // Whoever comes next may be another.
          const next = steps % 2 === 0 ? storage : others;
          isGone = await next.write(async (tx) => tx.conversations.eraseMore(id, told.conversation.id));
          if (steps < 3) expect(await state()).toEqual(expected);
          expect(await storage.read.conversations.erasing()).toHaveLength(isGone ? 0 : 1);
        }
        expect(steps).toBeGreaterThan(5);
        expect(await state()).toEqual(expected);
        expect(await storage.write(async (tx) => tx.conversations.eraseMore(id, told.conversation.id))).toBe(true);
        expect(await traceMore(await reopen(), id, told, more)).toEqual(gone);
      });

      test('goes on where it had come to when the storage was closed', async () => {
        const { storage, reopen } = await open();
        const { id } = await storedAccount(storage);
        const told = await tell(storage, id);
        await enlarge(storage, id, told);
        await erase(storage, id, told);
        await storage.write(async (tx) => tx.conversations.eraseMore(id, told.conversation.id));
        const reopened = await reopen();
        expect(await reopened.read.conversations.erasing()).toEqual([{ accountId: id, id: told.conversation.id }]);
        let isGone = false;
        while (!isGone) {
          isGone = await reopened.write(async (tx) => tx.conversations.eraseMore(id, told.conversation.id));
        }
        expect(await reopened.read.conversations.erasing()).toEqual([]);
      });

      test('is told to who watches, here and beside, who then finds that there was one more', async () => {
        const { storage, beside } = await open();
        const { id } = await storedAccount(storage);
        const told = await tell(storage, id);
        const other = await beside();
        const before = await other.read.events.erasures();
        const heard: string[] = [];
        const stops = [
          storage.watch((touched) => void (touched === undefined && heard.push('here'))),
          other.watch((touched) => void (touched === undefined && heard.push('beside'))),
        ];
        await erase(storage, id, told);
        await until(() => heard.includes('here') && heard.includes('beside'));
        for (const stop of stops) stop();
        expect(await other.read.events.erasures()).toBe(before + 1);
        expect(await other.read.conversations.find(id, told.conversation.id)).toBeUndefined();
      });
    });

    describe('another account', () => {
      test('finds nothing under any id of this one, reading or in a work', async () => {
        const { storage } = await open();
        const mine = await storedAccount(storage);
        const theirs = await storedAccount(storage);
        const key = sampleKey();
        const conversation = sampleConversation({ externalId: 'order-1', messageCount: 1 });
        const message = sampleMessage(conversation.id, 1);
        const lead = sampleLead({ conversationId: conversation.id });
        const event = sampleEvent(conversation);
        const webhook = sampleWebhook();
        const delivery = sampleDelivery(webhook.id, { status: 'failed' });
        const attempt = sampleAttempt();
        await storage.write(async (tx) => {
          await tx.webhooks.insert(mine.id, webhook);
          await tx.deliveries.insert(delivery);
          await tx.deliveries.insertAttempt(delivery.id, 1, attempt);
          await tx.apiKeys.insert(mine.id, key, sampleHash());
          await tx.conversations.insert(mine.id, conversation);
          await tx.messages.insert(mine.id, message);
          await tx.leads.insert(mine.id, lead);
          await tx.events.append(mine.id, [event]);
          await tx.rateWindows.add(mine.id, 10, 5);
        });
        const everything = async (reads: Storage['read'], accountId: string) => ({
          key: await reads.apiKeys.find(accountId, key.id),
          keys: await reads.apiKeys.page(accountId, { limit: 10, offset: 0 }),
          keyCounts: [await reads.apiKeys.count(accountId), await reads.apiKeys.countLive(accountId)],
          conversation: await reads.conversations.find(accountId, conversation.id),
          many: await reads.conversations.findMany(accountId, [conversation.id]),
          whole: await reads.conversations.findWithMessages(accountId, conversation.id),
          byExternalId: await reads.conversations.idByExternalId(accountId, 'order-1'),
          pages: await Promise.all(
            conversationSorts.map((sort) =>
              reads.conversations.page(accountId, { filter: {}, sort, limit: 10, offset: 0 }),
            ),
          ),
          counts: [
            await reads.conversations.count(accountId, {}),
            await reads.conversations.count(accountId, { status: 'active' }),
            await reads.conversations.count(accountId, { externalId: 'order-1' }),
            await reads.conversations.count(accountId, { createdAfter: 0 }),
          ],
          messages: await reads.messages.findMany(accountId, [message.id]),
          ranges: await reads.messages.ranges(accountId, [{ conversationId: conversation.id, from: 1, to: 9 }]),
          totals: await reads.accounts.totals(accountId),
          lead: await reads.leads.find(accountId, lead.id),
          leads: await reads.leads.findMany(accountId, [lead.id]),
          leadPage: await reads.leads.page(accountId, { limit: 10, offset: 0 }),
          leadCount: await reads.leads.count(accountId),
          bounds: await reads.events.bounds(accountId),
          logEnds: await reads.events.lastSequences([accountId]),
          events: await Promise.all(
            [{}, { types: [event.type] }, { conversationId: conversation.id }].map(async (filter) => {
              const page = await reads.events.after(accountId, 0, { filter, limit: 9, span: 9 });
              return page.events.map(({ id }) => id);
            }),
          ),
          windows: await reads.rateWindows.since(accountId, 0),
          webhook: await reads.webhooks.find(accountId, webhook.id),
          webhooks: await reads.webhooks.findMany(accountId, [webhook.id]),
          webhookPage: await reads.webhooks.page(accountId, { limit: 10, offset: 0 }),
          webhookCount: await reads.webhooks.count(accountId),
          wanting: await reads.webhooks.enabled(accountId),
          delivery: await reads.deliveries.find(accountId, delivery.id),
          deliveries: await reads.deliveries.findMany(accountId, [delivery.id]),
          deliveryPage: await reads.deliveries.page(accountId, webhook.id, { limit: 10, offset: 0 }),
          deliveryCount: await reads.deliveries.count(accountId, webhook.id),
          attempts: await reads.deliveries.attempts(accountId, [{ deliveryId: delivery.id, from: 1, to: 9 }]),
          failed: await reads.deliveries.failed(accountId, webhook.id, { fromId: '', afterSequence: 0, limit: 9 }),
        });
        const none = { items: [], hasMore: false };
        const nothing: Awaited<ReturnType<typeof everything>> = {
          key: undefined,
          keys: none,
          keyCounts: [0, 0],
          conversation: undefined,
          many: [undefined],
          whole: undefined,
          byExternalId: undefined,
          pages: conversationSorts.map(() => none),
          counts: [0, 0, 0, 0],
          messages: [undefined],
          ranges: [[]],
          totals: expect.objectContaining({ active: 0, pending: 0, closed: 0, eventSequence: 0 }),
          lead: undefined,
          leads: [undefined],
          leadPage: none,
          leadCount: 0,
          bounds: { first: 1, last: 0 },
          logEnds: [0],
          events: [[], [], []],
          windows: [],
          webhook: undefined,
          webhooks: [undefined],
          webhookPage: none,
          webhookCount: 0,
          wanting: [],
          delivery: undefined,
          deliveries: [undefined],
          deliveryPage: none,
          deliveryCount: 0,
          attempts: [[]],
          failed: [],
        };
        expect(await everything(storage.read, theirs.id)).toEqual(nothing);
        expect(await storage.write((tx) => everything(tx, theirs.id))).toEqual(nothing);
        // The same questions of the owner are all answered: the silence above is not a mistake of the questions.
        const found = await everything(storage.read, mine.id);
        expect(found).toMatchObject({
          key,
          conversation,
          messages: [message],
          ranges: [[message]],
          counts: [1, 1, 1, 1],
          lead,
          leads: [lead],
          leadPage: { items: [lead] },
          leadCount: 1,
          bounds: { first: 1, last: 1 },
          logEnds: [1],
          events: [[event.id], [event.id], [event.id]],
          webhook,
          webhooks: [webhook],
          webhookPage: { items: [webhook] },
          webhookCount: 1,
          wanting: [{ id: webhook.id }],
          delivery,
          deliveries: [delivery],
          deliveryPage: { items: [delivery] },
          deliveryCount: 1,
          attempts: [[attempt]],
          failed: [delivery],
        });
      });

      test('cannot change or remove a webhook of this one', async () => {
        const { storage } = await open();
        const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
        const webhook = sampleWebhook();
        await storage.write(async (tx) => {
          await tx.webhooks.insert(mine.id, webhook);
          await tx.webhooks.update(theirs.id, { ...webhook, url: 'https://example.org/' });
          await tx.webhooks.remove(theirs.id, webhook.id);
        });
        expect(await storage.read.webhooks.find(mine.id, webhook.id)).toEqual(webhook);
      });

      test('cannot change a conversation of this one', async () => {
        const { storage } = await open();
        const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
        const conversation = sampleConversation();
        await storage.write(async (tx) => tx.conversations.insert(mine.id, conversation));
        const change = storage.write(async (tx) =>
          tx.conversations.update(theirs.id, conversation, { ...conversation, status: 'closed', version: 2 }),
        );
        await expect(change).rejects.toThrow();
        expect(await storage.read.conversations.find(mine.id, conversation.id)).toEqual(conversation);
        expect(await storage.read.accounts.totals(theirs.id)).toMatchObject({ active: 0, closed: 0 });
      });
    });
  });
}

function fullConversation(): StoredConversation {
  const time = (offset: number) => timestamp(startMs + offset);
  return sampleConversation({
    status: 'closed',
    subject: awkwardText,
    visitor: { id: awkwardText, name: null, email: 'zoë@例え.jp' },
    externalId: awkwardText,
    metadata: awkwardMetadata,
    messageCount: 10_000,
    contentBytes: 8 * 1024 * 1024,
    lastActivityAt: time(1),
    firstVisitorMessageAt: time(2),
    firstResponseAt: time(3),
    closedAt: time(4),
    version: 7,
    updatedAt: time(5),
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

/** What becomes of a promise, for one that is looked at only later. */
async function settled<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [result] = await Promise.allSettled([promise]);
  return result;
}

// ── Random lists, and what a page of one has to be ──────────────────────────────────────────────

interface Seed {
  readonly createdMs: number;
  readonly activityMs: number;
  readonly status: StoredConversation['status'];
  readonly named: boolean;
}

// A few milliseconds for many conversations: most of them tie, in creation as in activity.
const spreadMs = 6;

function population(): fc.Arbitrary<Seed[]> {
  return fc.array(
    fc.record({
      createdMs: fc.nat(spreadMs),
      activityMs: fc.nat(spreadMs),
      status: fc.constantFrom(...statuses),
      named: fc.boolean(),
    }),
    { maxLength: 40 },
  );
}

function filterOf(): fc.Arbitrary<ConversationFilter> {
  const time = fc.integer({ min: -1, max: spreadMs + 1 }).map((offset) => startMs + offset);
  return fc.record(
    {
      status: fc.constantFrom(...statuses),
      createdAfter: time,
      createdBefore: time,
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
): Promise<{ accountId: string; conversations: StoredConversation[] }> {
  const account = sampleAccount();
  const conversations = seeds.map(({ createdMs, activityMs, status, named }, index) =>
    sampleConversation(
      { status, lastActivityAt: timestamp(startMs + activityMs), externalId: named ? String(index) : null },
      startMs + createdMs,
    ),
  );
  await storage.write(async (tx) => {
    await tx.accounts.insert(account);
    for (const conversation of conversations) await tx.conversations.insert(account.id, conversation);
  });
  return { accountId: account.id, conversations };
}

function matches(conversation: StoredConversation, filter: ConversationFilter): boolean {
  const createdMs = Date.parse(conversation.createdAt);
  return (
    (filter.status === undefined || conversation.status === filter.status) &&
    (filter.externalId === undefined || conversation.externalId === filter.externalId) &&
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

// ── Random logs, and what a look into one has to be ─────────────────────────────────────────────

/** Appends events that happened so many milliseconds after the start, in this order. */
function appendAt(storage: Storage, accountId: string, offsetsMs: readonly number[]): Promise<number> {
  const events = offsetsMs.map((offsetMs) =>
    sampleEvent(sampleConversation(), { timestamp: timestamp(startMs + offsetMs) }),
  );
  return storage.write(async (tx) => tx.events.append(accountId, events));
}

/** Conversations that the events of every log are of: a log of its own account each time. */
const logConversations = Array.from({ length: 3 }, () => sampleConversation());

interface LogSeed {
  readonly events: readonly { readonly type: NewEvent['type']; readonly conversation: number | null }[];
  /** How many of them are gone already. */
  readonly removed: number;
}

function eventLog(): fc.Arbitrary<LogSeed> {
  const event = fc.record({
    type: fc.constantFrom(...eventTypes),
    conversation: fc.option(fc.nat(logConversations.length - 1)),
  });
  return fc.record({ events: fc.array(event, { maxLength: 40 }), removed: fc.oneof(fc.constant(0), fc.nat(40)) });
}

interface FilterSeed {
  readonly types?: EventFilter['types'];
  /** One past the last is a conversation without events. */
  readonly conversation?: number;
}

function eventFilterOf(): fc.Arbitrary<FilterSeed> {
  return fc.record(
    {
      types: fc.uniqueArray(fc.constantFrom(...eventTypes), { minLength: 1 }),
      conversation: fc.nat(logConversations.length),
    },
    { requiredKeys: [] },
  );
}

function named({ types, conversation }: FilterSeed): EventFilter {
  if (conversation === undefined) return { types };
  return { types, conversationId: logConversations[conversation]?.id ?? 'conv_unknown' };
}

function fitsFilter(event: NewEvent, { types, conversationId }: EventFilter): boolean {
  return (
    (types === undefined || types.includes(event.type)) &&
    (conversationId === undefined || event.conversationId === conversationId)
  );
}

/** Stores a log in an account of its own. */
async function populateLog(
  storage: Storage,
  { events: seeds, removed }: LogSeed,
): Promise<{ accountId: string; log: LoggedEvent[]; last: number }> {
  const { id: accountId } = await storedAccount(storage);
  const conversation = sampleConversation();
  const events = seeds.map((seed, index) =>
    sampleEvent(conversation, {
      type: seed.type,
      conversationId: seed.conversation === null ? null : (logConversations[seed.conversation]?.id ?? null),
      timestamp: timestamp(index < removed ? startMs : startMs + 1),
    }),
  );
  await storage.write(async (tx) => {
    await tx.events.append(accountId, events);
    await tx.events.prune(startMs + 1, 1_000);
  });
  const log = events.map((event, index) => ({ ...event, sequence: index + 1 }));
  return { accountId, log: log.slice(removed), last: log.length };
}

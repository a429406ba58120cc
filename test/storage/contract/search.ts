import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { StoredConversation } from '../../../src/domain/conversation-record.ts';
import { finishErasures } from '../../../src/domain/conversations.ts';
import type { Status } from '../../../src/domain/lifecycle.ts';
import { indexTexts, type SearchFilter } from '../../../src/domain/search.ts';
import { conversationText, SearchWords } from '../../../src/domain/search-words.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import { sampleConversation, sampleMessage, startMs, storedAccount } from '../../support/samples.ts';
import { queriesByScript } from '../../support/scripts.ts';
import type { OpenedStorage } from './opened.ts';

/** What every storage promises of search: a part of `storageContract`. */
export function searchContract(open: () => Promise<OpenedStorage>): void {
  describe('search', () => {
    /** Writes a conversation with messages, whose texts come in this order. */
    async function tell(
      storage: Storage,
      accountId: string,
      contents: readonly string[],
      facts: Partial<StoredConversation> = {},
      createdMs = startMs,
    ): Promise<StoredConversation> {
      const conversation = sampleConversation({ messageCount: contents.length, ...facts }, createdMs);
      const createdAt = timestamp(createdMs);
      await storage.write(async (tx) => tx.conversations.insert(accountId, conversation));
      for (let told = 0; told < contents.length; told += 500) {
        await storage.write(async (tx) => {
          for (const [index, content] of contents.slice(told, told + 500).entries()) {
            const message = sampleMessage(conversation.id, told + index + 1, { content, createdAt });
            await tx.messages.insert(accountId, message);
          }
        });
      }
      return conversation;
    }

    /** Where a query is found, page by page, as conversation and sequence. */
    async function found(
      { read }: Storage,
      accountId: string,
      query: string,
      { filter = {}, limit = 100 }: { filter?: SearchFilter; limit?: number } = {},
    ): Promise<[string, number][]> {
      const words = new SearchWords(query);
      const places: [string, number][] = [];
      let after: number | undefined;
      for (let hasMore = true; hasMore; ) {
        const page = await read.search.page(accountId, { words, filter, limit, after });
        expect(page.items.length).toBeLessThanOrEqual(limit);
        if (page.hasMore) expect(page.items).toHaveLength(limit);
        places.push(...page.items.map(({ conversationId, sequence }): [string, number] => [conversationId, sequence]));
        after = page.items.at(-1)?.place;
        hasMore = page.hasMore;
      }
      expect(await read.search.count(accountId, { words, filter }, 10_000)).toBe(places.length);
      return places;
    }

    test('finds a conversation by what it was changed to by the unit of work that has stored it', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const first = sampleConversation({ subject: 'Lighthouse' });
      await storage.write(async (tx) => {
        await tx.conversations.insert(accountId, first);
        await tx.conversations.update(accountId, first, { ...first, subject: 'Windmill', version: 2 });
      }, accountId);
      expect(await found(storage, accountId, 'windmill')).toEqual([[first.id, 0]]);
      expect(await found(storage, accountId, 'lighthouse')).toEqual([]);
    });

    test('finds what is just written, and the same when it is indexed', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const visitor = { id: 'customer-7', name: 'Ada Lovelace', email: 'ada@example.com' };
      const { id } = await tell(storage, accountId, ['Where is my parcel?', 'It will come tomorrow.'], {
        subject: 'Parcel 1042',
        visitor,
      });
      const places = async () => ({
        parcel: await found(storage, accountId, 'parcel'),
        beginning: await found(storage, accountId, 'where PAR'),
        onlyTheLast: await found(storage, accountId, 'wher parcel'),
        subject: await found(storage, accountId, '1042'),
        name: await found(storage, accountId, 'ada love'),
        email: await found(storage, accountId, 'ada@example.com'),
        across: await found(storage, accountId, 'parcel tomorrow'),
        id: await found(storage, accountId, 'customer'),
        nothing: await found(storage, accountId, '?!'),
      });
      const expected = {
        parcel: [
          [id, 1],
          [id, 0],
        ],
        beginning: [[id, 1]],
        onlyTheLast: [],
        subject: [[id, 0]],
        name: [[id, 0]],
        email: [[id, 0]],
        across: [],
        id: [],
        nothing: [],
      };
      expect(await places()).toEqual(expected);
      await indexTexts(storage);
      expect(await places()).toEqual(expected);
    });

    test('finds texts in 17 scripts', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const texts = [...new Set(queriesByScript.map(([, text]) => text))];
      const { id } = await tell(storage, accountId, texts);
      for (const isIndexed of [false, true]) {
        if (isIndexed) await indexTexts(storage);
        for (const [, text, query] of queriesByScript) {
          expect(await found(storage, accountId, query), query).toContainEqual([id, texts.indexOf(text) + 1]);
        }
      }
    });

    test('finds nothing of another account', async () => {
      const { storage } = await open();
      const [mine, theirs, silent] = [
        await storedAccount(storage),
        await storedAccount(storage),
        await storedAccount(storage),
      ];
      const { id } = await tell(storage, mine.id, ['secret'], { subject: 'secret' });
      await tell(storage, theirs.id, ['hello']);
      for (const isIndexed of [false, true]) {
        if (isIndexed) await indexTexts(storage);
        expect(await found(storage, mine.id, 'secret')).toEqual([
          [id, 1],
          [id, 0],
        ]);
        expect(await found(storage, theirs.id, 'secret')).toEqual([]);
        expect(await found(storage, silent.id, 'secret')).toEqual([]);
        // Nor does a query that looks like the beginning of another account's words.
        for (const query of ['0', '00000', 'hello OR secret', '000001zlpsecret']) {
          expect(await found(storage, theirs.id, query)).toEqual([]);
        }
      }
    });

    test('finds a conversation’s text as it is now, at its old place', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const first = await tell(storage, accountId, [], { subject: 'old words' });
      const second = await tell(storage, accountId, ['other words']);
      let previous = first;
      for (const [subject, isIndexed] of [
        ['new words', false],
        ['newer words', true],
        [null, true],
        ['newest words', true],
      ] as const) {
        if (isIndexed) await indexTexts(storage);
        const next = { ...previous, subject, version: previous.version + 1 };
        await storage.write(async (tx) => tx.conversations.update(accountId, previous, next));
        previous = next;
        expect(await found(storage, accountId, 'old')).toEqual([]);
        expect(await found(storage, accountId, 'words')).toEqual([
          [second.id, 1],
          ...(subject === null ? [] : [[first.id, 0]]),
        ]);
        if (subject !== null) expect(await found(storage, accountId, subject)).toEqual([[first.id, 0]]);
      }
    });

    test('finds nothing of what is erased, from the first transaction on, and all of the rest', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const kept = await tell(storage, accountId, ['kept words'], { subject: 'kept' });
      const contents = Array.from({ length: 300 }, (_, index) => `erased words ${index}`);
      const erased = await tell(storage, accountId, contents, { subject: 'erased' });
      await indexTexts(storage);
      const waiting = await tell(storage, accountId, contents.slice(0, 5), { subject: 'erased' });
      expect(await found(storage, accountId, 'erased')).toHaveLength(307);
      await storage.write(async (tx) => {
        await tx.conversations.erase(accountId, erased);
        await tx.conversations.erase(accountId, waiting);
      });
      const check = async (): Promise<void> => {
        expect(await found(storage, accountId, 'erased')).toEqual([]);
        expect(await found(storage, accountId, 'words')).toEqual([[kept.id, 1]]);
      };
      await check();
      await indexTexts(storage);
      await check();
      await finishErasures(storage);
      await check();
      await indexTexts(storage);
      await check();
    });

    test('finds a long text by all of its words, and removes all of them', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const long = Array.from({ length: 2_500 }, (_, index) => `w${index}`).join(' ');
      const han = Array.from({ length: 5_000 }, (_, index) => String.fromCodePoint(0x4e00 + index)).join('');
      const conversation = await tell(storage, accountId, [long, han]);
      await indexTexts(storage);
      for (const query of ['w0', 'w1249', 'w2499', 'w2499 w0 w7']) {
        expect(await found(storage, accountId, query)).toContainEqual([conversation.id, 1]);
      }
      expect(await found(storage, accountId, [...han].slice(4_900, 4_980).join(''))).toEqual([[conversation.id, 2]]);
      await storage.write(async (tx) => tx.conversations.erase(accountId, conversation));
      await finishErasures(storage);
      expect(await found(storage, accountId, 'w1249')).toEqual([]);
    });

    test('counts up to a limit, and goes through more texts than a step or a partition has', {
      timeout: 60_000,
    }, async () => {
      const { storage, manyTexts: size = 8_400 } = await open();
      const { id: accountId } = await storedAccount(storage);
      const contents = Array.from(
        { length: size },
        (_, index) => `common ${index % 2 === 0 ? 'even' : 'odd'} number${index} ${index === 10 ? 'rare 中文字' : ''}`,
      );
      const { id } = await tell(storage, accountId, contents);
      await indexTexts(storage);
      const common = await found(storage, accountId, 'common', { limit: 1_000 });
      expect(common).toEqual(contents.map((_, index) => [id, size - index]));
      for (const query of ['rare', 'common ra', 'rare c', 'rare n', '中文字', '字', 'common 中文', 'number10 中 文']) {
        expect(await found(storage, accountId, query), query).toEqual([[id, 11]]);
      }
      expect(await found(storage, accountId, 'even number', { limit: 1_000 })).toHaveLength(size / 2);
      for (const query of ['even odd', 'odd even n', '文中', 'absent', 'common absent']) {
        expect(await found(storage, accountId, query), query).toEqual([]);
      }
      const words = new SearchWords('common');
      expect(await storage.read.search.count(accountId, { words, filter: {} }, 1_001)).toBe(1_001);
    });

    test('finds as a scan of all texts would, whatever is written, changed, indexed, erased and asked', async () => {
      const word = fc.constantFrom('a', 'ab', 'abc', 'b', 'ba', 'Äb', 'c1', '中', '中文', '文中文', 'カﾞ', 'x-y');
      const text = fc
        .array(word, { maxLength: 4 })
        .chain((words) => fc.constantFrom(' ', '', '\n', ', ').map((space) => words.join(space)));
      const assignee = fc.constantFrom('agent-1', 'agent-2');
      const step = fc.oneof(
        {
          weight: 4,
          arbitrary: fc.record({
            do: fc.constant('tell' as const),
            subject: text,
            contents: fc.array(text),
            account: fc.nat(1),
            status: fc.constantFrom('active', 'pending', 'closed' as const),
            later: fc.nat(3),
            assignee: fc.option(assignee),
            tags: fc.constantFrom([], ['a'], ['a', 'a"', 'b']),
          }),
        },
        { weight: 1, arbitrary: fc.record({ do: fc.constant('change' as const), which: fc.nat(), subject: text }) },
        { weight: 1, arbitrary: fc.record({ do: fc.constant('erase' as const), which: fc.nat() }) },
        { weight: 2, arbitrary: fc.record({ do: fc.constant('index' as const) }) },
        {
          weight: 3,
          arbitrary: fc.record({
            do: fc.constant('search' as const),
            query: text,
            account: fc.nat(1),
            limit: fc.integer({ min: 1, max: 3 }),
            filter: fc.record(
              {
                statuses: fc.constantFrom<Status[]>(['active'], ['active', 'closed']),
                assigneeId: assignee,
                tags: fc.constantFrom(['a'], ['a"', 'b']),
                createdAfter: fc.integer({ min: startMs - 1, max: startMs + 9 }),
                createdBefore: fc.integer({ min: startMs, max: startMs + 9 }),
              },
              { requiredKeys: [] },
            ),
          }),
        },
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
          const { storage } = await open();
          const accounts = [(await storedAccount(storage)).id, (await storedAccount(storage)).id];
          /** All texts, in the order in which they came. */
          let model: {
            account: number;
            conversation: StoredConversation;
            sequence: number;
            text: string;
            ms: number;
          }[] = [];
          let now = startMs;
          for (const each of steps) {
            const conversations = model.filter(({ sequence }) => sequence === 0);
            if (each.do === 'tell') {
              now += each.later;
              const { account } = each;
              const assignee = each.assignee === null ? null : { id: each.assignee, name: null };
              const facts = { subject: each.subject, status: each.status, assignee, tags: each.tags };
              const conversation = await tell(storage, accounts[account] as string, each.contents, facts, now);
              const texts = [conversationText(conversation), ...each.contents];
              model.push(...texts.map((text, sequence) => ({ account, conversation, sequence, text, ms: now })));
            } else if (each.do === 'index') {
              await storage.write(async (tx) => tx.search.index());
            } else if (each.do === 'search') {
              const { statuses, assigneeId, tags = [] } = each.filter;
              const { createdAfter = 0, createdBefore = Number.POSITIVE_INFINITY } = each.filter;
              const words = new SearchWords(each.query);
              const expected = model
                .filter(
                  ({ account, conversation, ms }) =>
                    account === each.account &&
                    ms > createdAfter &&
                    ms < createdBefore &&
                    (statuses?.includes(conversation.status) ?? true) &&
                    (assigneeId === undefined || conversation.assignee?.id === assigneeId) &&
                    tags.every((tag) => conversation.tags.includes(tag)),
                )
                .filter(({ text }) => words.isIn(text))
                .map(({ conversation, sequence }) => [conversation.id, sequence])
                .reverse();
              expect(await found(storage, accounts[each.account] as string, each.query, each)).toEqual(expected);
            } else if (conversations.length > 0) {
              const at = conversations[each.which % conversations.length] as (typeof model)[number];
              const previous = at.conversation;
              const accountId = accounts[at.account] as string;
              if (each.do === 'erase') {
                await storage.write(async (tx) => tx.conversations.erase(accountId, previous));
                model = model.filter(({ conversation }) => conversation.id !== previous.id);
                await finishErasures(storage);
              } else {
                const next = { ...previous, subject: each.subject, version: previous.version + 1 };
                await storage.write(async (tx) => tx.conversations.update(accountId, previous, next));
                for (const text of model.filter(({ conversation }) => conversation.id === previous.id)) {
                  text.conversation = next;
                  if (text.sequence === 0) text.text = conversationText(next);
                }
              }
            }
          }
        }),
        { numRuns: effort(5, 60) },
      );
    });

    test('goes on after a place whose text is erased, and after one that another was written behind', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const told: StoredConversation[] = [];
      for (let index = 0; index < 5; index++) told.push(await tell(storage, accountId, ['word']));
      const words = new SearchWords('word');
      const first = await storage.read.search.page(accountId, { words, filter: {}, limit: 2 });
      await tell(storage, accountId, ['word']);
      await storage.write(async (tx) => tx.conversations.erase(accountId, told[3] as StoredConversation));
      const after = first.items.at(-1)?.place;
      const second = await storage.read.search.page(accountId, { words, filter: {}, limit: 9, after });
      expect(second.items.map(({ conversationId }) => conversationId)).toEqual([told[2]?.id, told[1]?.id, told[0]?.id]);
    });
  });
}

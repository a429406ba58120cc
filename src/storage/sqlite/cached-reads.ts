import type { Account } from '../../domain/accounts.ts';
import type { StoredConversation } from '../../domain/conversation-record.ts';
import type { ConversationQuery } from '../../domain/conversations.ts';
import type { Message } from '../../domain/messages.ts';
import type { Metadata } from '../../domain/metadata.ts';
import type { Slice } from '../../domain/paging.ts';
import type {
  AccountReads,
  ApiKeyReads,
  ConversationReads,
  FoundApiKey,
  MessageReads,
} from '../../domain/storage-port.ts';
import { textWeight, VersionedCache } from '../../runtime/versioned-cache.ts';
import { accountReads } from './accounts.ts';
import { apiKeyReads } from './api-keys.ts';
import { CommitCache, type Commits } from './commit-cache.ts';
import { maySkipMany, versionReads } from './conversation-lists.ts';
import { conversationReads } from './conversations.ts';
import { messageReads } from './messages.ts';
import type { Queries } from './queries.ts';
import { sliceOf } from './rows.ts';

// Caches in front of the reads. They are never stale: an entry holds until the next commit (`CommitCache`), or for one
// version of a conversation (`VersionedCache`, which caches a value on its second read), and SQLite is first asked
// whether anything was committed, after the caller's request has come in. Messages are immutable, and the caller has
// just read the conversation that they are in. Only for read-only connections: the writing one sees what may be rolled
// back.

// Limits of memory, in bytes.
const maxWeight = 3 * 1024 * 1024;
const maxWeightOfWholes = 3 * maxWeight;
const maxEntryWeight = 64 * 1024;
// Measured bytes of memory, without the texts that clients supply: objects, times, ids, the headers of strings.
const conversationWeight = 700;
/** With its key, the query, whose filters can be a few hundred characters long. */
const pageWeight = 1_000;
const messageWeight = 360;
/** One entry of an object whose keys no other object has; where they are shared it is a third of that. */
const metadataWeight = 110;
/** The version of what never changes. */
const immutable = 1;

interface Whole {
  readonly conversation: StoredConversation;
  readonly messages: readonly Message[];
}

export function cachedConversationReads(db: Queries, commits: Commits): ConversationReads {
  const reads = conversationReads(db);
  const versions = versionReads(db);
  const rows = new VersionedCache<StoredConversation>(maxWeight);
  const wholes = new VersionedCache<Whole>(maxWeightOfWholes);
  const current = new CommitCache<number | undefined>(commits, 4_000);
  const pages = new CommitCache<Slice<StoredConversation>>(commits, maxWeight, pageWeightOf);
  const totals = new CommitCache<number>(commits, 1_000);

  const cache = (conversation: StoredConversation): void =>
    rows.keep(conversation.id, conversation.version, conversation, weightOf(conversation));

  const versionOf = (accountId: string, id: string): number | undefined =>
    current.get(`${accountId} ${id}`, () => versions.find(accountId, id));

  function firstPage(accountId: string, query: ConversationQuery): Slice<StoredConversation> {
    const places = sliceOf(versions.page(accountId, query), query.limit, (place) => place);
    const items = places.items.flatMap(({ id, version }) => rows.get(id, version) ?? []);
    if (items.length === places.items.length) return { items, hasMore: places.hasMore };
    const slice = reads.pageAtOnce(accountId, query);
    slice.items.forEach(cache);
    return slice;
  }

  return {
    ...reads,
    findMany(accountId, ids) {
      const [id] = ids;
      if (ids.length !== 1 || id === undefined) return reads.findMany(accountId, ids);
      const version = versionOf(accountId, id);
      const cached = version === undefined ? undefined : rows.get(id, version);
      if (version === undefined || cached !== undefined) return [cached];
      const found = reads.find(accountId, id);
      if (found !== undefined) cache(found);
      return [found];
    },
    findWithMessages(accountId, id) {
      const version = versionOf(accountId, id);
      if (version === undefined) return undefined;
      const cached = wholes.get(id, version);
      if (cached !== undefined) return cached;
      const found = reads.findWithMessages(accountId, id);
      if (found !== undefined) {
        const weight = weightOf(found.conversation, found.messages);
        if (weight <= maxEntryWeight) wholes.keep(id, found.conversation.version, found, weight);
      }
      return found;
    },
    page(accountId, query) {
      // Later pages are mostly asked for by clients that read everything once.
      if (query.after !== undefined || query.offset > 0 || maySkipMany(query)) return reads.page(accountId, query);
      return pages.get(JSON.stringify([accountId, query]), () => firstPage(accountId, query));
    },
    count: (accountId, filter) =>
      Object.values(filter).every((value) => value === undefined)
        ? totals.get(accountId, () => reads.countAll(accountId))
        : reads.count(accountId, filter),
  };
}

export function cachedMessageReads(db: Queries): MessageReads {
  const reads = messageReads(db);
  const pages = new VersionedCache<readonly Message[]>(maxWeight);
  return {
    ...reads,
    ranges(accountId, asked) {
      const [range] = asked;
      if (asked.length !== 1 || range === undefined) return reads.ranges(accountId, asked);
      const { conversationId, from, to } = range;
      const key = `${accountId} ${conversationId} ${from} ${to}`;
      const cached = pages.get(key, immutable);
      if (cached !== undefined) return [cached];
      const [page = []] = reads.ranges(accountId, asked);
      const weight = page.reduce((sum, message) => sum + messageWeightOf(message), 0);
      const isWhole = page.length === to - from + 1;
      if (isWhole && weight <= maxEntryWeight) pages.keep(key, immutable, page, weight);
      return [page];
    },
  };
}

export function cachedAccountReads(db: Queries, commits: Commits) {
  const reads = accountReads(db);
  const found = new CommitCache<Account | undefined>(commits, 1_000);
  return { ...reads, find: (id: string) => found.get(id, () => reads.find(id)) } satisfies AccountReads;
}

export function cachedApiKeyReads(db: Queries, commits: Commits): ApiKeyReads {
  const reads = apiKeyReads(db);
  const keys = new CommitCache<FoundApiKey | undefined>(commits, 1_000);
  return {
    ...reads,
    findBySecret: (hash) => keys.get(Buffer.from(hash).toString('latin1'), () => reads.findBySecret(hash)),
  };
}

function pageWeightOf({ items }: Slice<StoredConversation>): number {
  return items.reduce((sum, conversation) => sum + weightOf(conversation), pageWeight);
}

function weightOf(conversation: StoredConversation, messages: readonly Message[] = []): number {
  const { subject, visitor, externalId, metadata } = conversation;
  const texts = weightOfText(subject) + weightOfText(externalId);
  const ofVisitor = weightOfText(visitor?.id) + weightOfText(visitor?.name) + weightOfText(visitor?.email);
  const own = conversationWeight + texts + ofVisitor + metadataWeightOf(metadata);
  return messages.reduce((sum, message) => sum + messageWeightOf(message), own);
}

function messageWeightOf({ content, author, metadata }: Message): number {
  const texts = textWeight(content) + weightOfText(author?.id) + weightOfText(author?.name);
  return messageWeight + texts + metadataWeightOf(metadata);
}

function metadataWeightOf(metadata: Metadata): number {
  let weight = 0;
  for (const key in metadata) {
    const value = metadata[key];
    weight += metadataWeight + textWeight(key) + (typeof value === 'string' ? textWeight(value) : 0);
  }
  return weight;
}

function weightOfText(text: string | null | undefined): number {
  return text == null ? 0 : textWeight(text);
}

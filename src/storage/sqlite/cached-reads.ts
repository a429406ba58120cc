import type { Account } from '../../domain/accounts.ts';
import type { StoredConversation } from '../../domain/conversation.ts';
import type { ConversationQuery } from '../../domain/conversations.ts';
import type { Message } from '../../domain/messages.ts';
import type { Metadata } from '../../domain/metadata.ts';
import type { Slice } from '../../domain/paging.ts';
import type { AccountReads, ApiKeyReads, ConversationReads, FoundApiKey, MessageReads } from '../../domain/ports.ts';
import { Recent, textWeight } from '../../domain/recent.ts';
import { accountReads } from './accounts.ts';
import { apiKeyReads } from './api-keys.ts';
import { CommitCache, type Commits } from './commit-cache.ts';
import { mayPassOverMany, versionReads } from './conversation-lists.ts';
import { conversationReads } from './conversations.ts';
import { messageReads } from './messages.ts';
import type { Queries } from './queries.ts';
import { sliceOf } from './rows.ts';

// What is asked again and again is kept when it is read for the second time. Nothing here can be out of date: what is
// answered hangs on a question to the database, put after whoever asks had come: whether anything was committed. But
// messages never change, and whoever asks for them has just read the conversation that has them. Only for connections
// that read: what a writing one sees may still be undone.

/** In bytes of memory. */
const maxKept = 3 * 1024 * 1024;
const maxKeptWhole = 3 * maxKept;
const maxWeight = 64 * 1024;
// What things take beside the texts that clients give them, in bytes, as measured: objects, times, ids, heads of texts.
const conversationWeight = 700;
/** With the question, whose filters can have a few hundred characters. */
const pageWeight = 1_000;
const messageWeight = 360;
/** One key, where nothing else has the same keys; else it is a third of that. */
const metadataWeight = 110;
/** The version of what has but one. */
const unchanging = 1;

interface Whole {
  readonly conversation: StoredConversation;
  readonly messages: readonly Message[];
}

export function cachedConversationReads(db: Queries, commits: Commits): ConversationReads {
  const reads = conversationReads(db);
  const versions = versionReads(db);
  const rows = new Recent<StoredConversation>(maxKept);
  const wholes = new Recent<Whole>(maxKeptWhole);
  const current = new CommitCache<number | undefined>(commits, 4_000);
  const pages = new CommitCache<Slice<StoredConversation>>(commits, maxKept, pageWeightOf);
  const totals = new CommitCache<number>(commits, 1_000);

  const keep = (conversation: StoredConversation): void =>
    rows.keep(conversation.id, conversation.version, conversation, weightOf(conversation));

  const versionOf = (accountId: string, id: string): number | undefined =>
    current.get(`${accountId} ${id}`, () => versions.find(accountId, id));

  function firstPage(accountId: string, query: ConversationQuery): Slice<StoredConversation> {
    const places = sliceOf(versions.page(accountId, query), query.limit, (place) => place);
    const items = places.items.flatMap(({ id, version }) => rows.get(id, version) ?? []);
    if (items.length === places.items.length) return { items, hasMore: places.hasMore };
    const slice = reads.pageAtOnce(accountId, query);
    slice.items.forEach(keep);
    return slice;
  }

  return {
    ...reads,
    findMany(accountId, ids) {
      const [id] = ids;
      if (ids.length !== 1 || id === undefined) return reads.findMany(accountId, ids);
      const version = versionOf(accountId, id);
      const kept = version === undefined ? undefined : rows.get(id, version);
      if (version === undefined || kept !== undefined) return [kept];
      const found = reads.find(accountId, id);
      if (found !== undefined) keep(found);
      return [found];
    },
    findWithMessages(accountId, id) {
      const version = versionOf(accountId, id);
      if (version === undefined) return undefined;
      const kept = wholes.get(id, version);
      if (kept !== undefined) return kept;
      const found = reads.findWithMessages(accountId, id);
      if (found !== undefined) {
        const weight = weightOf(found.conversation, found.messages);
        if (weight <= maxWeight) wholes.keep(id, found.conversation.version, found, weight);
      }
      return found;
    },
    page(accountId, query) {
      // Further pages are read by those who read everything once.
      if (query.after !== undefined || query.offset > 0 || mayPassOverMany(query)) return reads.page(accountId, query);
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
  const pages = new Recent<readonly Message[]>(maxKept);
  return {
    ...reads,
    ranges(accountId, asked) {
      const [range] = asked;
      if (asked.length !== 1 || range === undefined) return reads.ranges(accountId, asked);
      const { conversationId, from, to } = range;
      const key = `${accountId} ${conversationId} ${from} ${to}`;
      const kept = pages.get(key, unchanging);
      if (kept !== undefined) return [kept];
      const [page = []] = reads.ranges(accountId, asked);
      const weight = page.reduce((sum, message) => sum + messageWeightOf(message), 0);
      const isWhole = page.length === to - from + 1;
      if (isWhole && weight <= maxWeight) pages.keep(key, unchanging, page, weight);
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

import type { StoredConversation } from '../../domain/conversation.ts';
import type { Message } from '../../domain/messages.ts';
import type { ApiKeyReads, ConversationReads } from '../../domain/ports.ts';
import { Recent } from '../../domain/recent.ts';
import { apiKeyReads } from './api-keys.ts';
import { conversationReads, versionReads } from './conversations.ts';
import type { Queries } from './queries.ts';
import { sliceOf } from './rows.ts';
import { Unchanged } from './unchanged.ts';

// What is asked again and again is read once. Nothing here can be out of date: each answer begins with a question
// to the database, for a version or for whether anything was committed. Only for connections that read: what a
// writing one sees may still be undone.

/** Rough sizes in memory, in bytes. */
const maxKept = 16 * 1024 * 1024;
const maxWeight = 64 * 1024;
const conversationWeight = 1_500;
const metadataWeight = 200;
const messageWeight = 500;

interface Whole {
  readonly conversation: StoredConversation;
  readonly messages: readonly Message[];
}

export function cachedConversationReads(db: Queries): ConversationReads {
  const reads = conversationReads(db);
  const versions = versionReads(db);
  const rows = new Recent<StoredConversation>(maxKept);
  const wholes = new Recent<Whole>(maxKept);
  const totals = new Unchanged<number>(db.$client);

  const keep = (conversation: StoredConversation): void =>
    rows.keep(conversation.id, conversation.version, conversation, weightOf(conversation));

  return {
    ...reads,
    findMany(accountId, ids) {
      const [id] = ids;
      if (ids.length !== 1 || id === undefined) return reads.findMany(accountId, ids);
      const version = versions.find(accountId, id);
      const kept = version === undefined ? undefined : rows.get(id, version);
      if (version === undefined || kept !== undefined) return [kept];
      const found = reads.find(accountId, id);
      if (found !== undefined) keep(found);
      return [found];
    },
    findWithMessages(accountId, id) {
      const version = versions.find(accountId, id);
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
      if (query.after !== undefined || query.offset > 0) return reads.page(accountId, query);
      const places = sliceOf(versions.page(accountId, query), query.limit, (place) => place);
      const items = places.items.flatMap(({ id, version }) => rows.get(id, version) ?? []);
      if (items.length === places.items.length) return { items, hasMore: places.hasMore };
      const slice = reads.page(accountId, query);
      slice.items.forEach(keep);
      return slice;
    },
    count: (accountId, filter) =>
      Object.values(filter).every((value) => value === undefined)
        ? totals.get(accountId, () => reads.count(accountId, filter))
        : reads.count(accountId, filter),
  };
}

export function cachedApiKeyReads(db: Queries): ApiKeyReads {
  const reads = apiKeyReads(db);
  const keys = new Unchanged<ReturnType<ApiKeyReads['findBySecret']>>(db.$client);
  return {
    ...reads,
    findBySecret: (hash) => keys.get(Buffer.from(hash).toString('latin1'), () => reads.findBySecret(hash)),
  };
}

function weightOf({ metadata, contentBytes }: StoredConversation, messages: readonly Message[] = []): number {
  const texts = messages.length === 0 ? 0 : 2 * contentBytes;
  const data = messages.reduce(
    (sum, message) => sum + Object.keys(message.metadata).length,
    Object.keys(metadata).length,
  );
  return conversationWeight + texts + messages.length * messageWeight + data * metadataWeight;
}

import type { Conversation } from '../domain/conversation-record.ts';
import type { ConversationWithMessages } from '../domain/conversations.ts';
import { textWeight, VersionedCache } from '../runtime/versioned-cache.ts';

/** The size of each cache. */
const maxCacheBytes = 8 * 1024 * 1024;
/** Longer JSON is not cached. In UTF-16 code units. */
const maxLength = 64 * 1024;

/** Serialises conversations. The JSON of a version is cached when it is requested a second time. */
export class WrittenJson {
  readonly #conversations = new VersionedCache<string>(maxCacheBytes);
  readonly #withMessages = new VersionedCache<string>(maxCacheBytes);

  conversation(conversation: Conversation): string {
    return serialise(conversation, this.#conversations);
  }

  withMessages(conversation: ConversationWithMessages): string {
    return serialise(conversation, this.#withMessages);
  }
}

function serialise(conversation: Conversation, cache: VersionedCache<string>): string {
  const { id, version } = conversation;
  const cached = cache.get(id, version);
  if (cached !== undefined) return cached;
  const json = JSON.stringify(conversation);
  if (json.length <= maxLength) cache.keep(id, version, json, textWeight(json));
  return json;
}

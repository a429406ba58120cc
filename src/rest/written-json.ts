import type { Conversation } from '../domain/conversation.ts';
import type { ConversationWithMessages } from '../domain/conversations.ts';
import { Recent, textWeight } from '../domain/recent.ts';

/** In bytes. */
const maxKept = 8 * 1024 * 1024;
/** In characters. */
const maxLength = 64 * 1024;

/** Writes conversations as JSON; a version that is asked for a second time is kept as long as it is asked for. */
export class WrittenJson {
  readonly #conversations = new Recent<string>(maxKept);
  readonly #withMessages = new Recent<string>(maxKept);

  conversation(conversation: Conversation): string {
    return written(conversation, this.#conversations);
  }

  withMessages(conversation: ConversationWithMessages): string {
    return written(conversation, this.#withMessages);
  }
}

function written(conversation: Conversation, kept: Recent<string>): string {
  const { id, version } = conversation;
  const known = kept.get(id, version);
  if (known !== undefined) return known;
  const json = JSON.stringify(conversation);
  if (json.length <= maxLength) kept.keep(id, version, json, textWeight(json));
  return json;
}

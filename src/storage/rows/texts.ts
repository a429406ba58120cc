import type { Visitor } from '../../domain/conversation-record.ts';
import { conversationText } from '../../domain/search-words.ts';
import { fromJson, type Json } from './values.ts';

/** What a text that is searched consists of: the content of a message, or what makes up the text of a conversation. */
export type TextSource = {
  readonly content: string | null;
  readonly subject: string | null;
  readonly visitor: Json<Visitor> | null;
};

export function textOf({ content, subject, visitor }: TextSource): string {
  return content ?? conversationText({ subject, visitor: fromJson(visitor) });
}

import { createClient } from 'graphql-ws';
import type { Json } from './client.ts';
import { runGuide } from './guide.ts';
import { fetchOfPage, impatient, type Received } from './inbox.ts';

/** A visitor's page, as the GUIDE builds it. */
export interface Widget {
  /** The visitor's conversations, the one with the latest message first. */
  list(): Json[];
  /** How many messages are unread. */
  badge(): number;
  /** The messages of the conversation that is open. */
  shown(): Json[];
  /** Reads the messages of a conversation, which are then read by the visitor. */
  open(id: string): Promise<void>;
  /** Marks what it shows as read. */
  seen(): Promise<void>;
  /** Starts a conversation with a message, and opens it. */
  start(content: string, clientId?: string): Promise<void>;
  send(content: string, clientId?: string): Promise<void>;
  /** The events that it has been given, and when. */
  readonly received: Received[];
  /** Breaks its connection, as a network does. */
  interrupt(): void;
  dispose(): Promise<void>;
}

/**
 * @param token what else is asked for its token
 * @param globals what it finds in the page instead of what is there
 */
export async function openWidget(
  url: string,
  secret: string,
  visitor: object,
  { token = {}, globals = {} }: { token?: object; globals?: Readonly<Record<string, unknown>> } = {},
): Promise<Widget> {
  const scopes = ['conversations:read', 'conversations:write', 'events:read'];
  const { follow, dispose, ...page } = await runGuide<Widget & { follow(): Promise<void> }>(
    'Build a chat widget',
    `{
      list, badge, shown, open, seen, start, send, received, follow,
      interrupt: () => socket.terminate(),
      dispose: () => socket.dispose(),
    }`,
    { 'graphql-ws': { createClient } },
    {
      fetch: fetchOfPage(url, secret, '/chat-token', { scopes, visitor, ...token }),
      show: () => {},
      received: [],
      ...globals,
    },
    (code) =>
      impatient(code)
        .replace(/^const service = .*$/m, `const service = '${url}';`)
        .replace(/^( +)cursor$/m, '$1id cursor')
        .replace('fold(data.event);', '$& received.push({ ...data.event, receivedMs: performance.now() });'),
  );
  const followed = follow();
  return {
    ...page,
    async dispose() {
      await dispose();
      await followed;
    },
  };
}

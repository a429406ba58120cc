import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import type { Message } from '../records.ts';
import { Button, Empty, Failure, Time, wordsOf } from '../ui.tsx';
import { codeOf } from './context.ts';
import type { Draft, Inbox } from './inbox.ts';
import { titleOf } from './rows.ts';
import type { ThreadProps } from './thread-view.tsx';

/** So near to the end, who reads wants to see what comes. */
const nearPixels = 48;

/** The messages: it stays where it is read, and at the end with those that come. */
export function Log({ inbox, thread }: ThreadProps) {
  const log = useRef<HTMLDivElement>(null);
  const place = useRef({ isAtEnd: true, fromEnd: 0, first: 0, drafts: 0 });
  const { messages } = thread;
  const { drafts } = inbox;
  const first = messages[0]?.sequence ?? 0;
  const last = messages.at(-1)?.sequence ?? 0;
  const hadFocus = log.current?.contains(document.activeElement);

  const look = (): void => {
    const element = log.current;
    if (element === null) return;
    const fromEnd = element.scrollHeight - element.scrollTop;
    place.current.fromEnd = fromEnd;
    place.current.isAtEnd = fromEnd - element.clientHeight < nearPixels;
  };
  const markSeen = (): void => {
    if (document.visibilityState === 'visible' && place.current.isAtEnd) void inbox.seen();
  };

  useLayoutEffect(() => {
    const element = log.current;
    const now = place.current;
    if (element === null) return;
    if (first < now.first) element.scrollTop = element.scrollHeight - now.fromEnd;
    else if (now.isAtEnd || drafts.length > now.drafts) element.scrollTop = element.scrollHeight;
    // The button that had it is gone.
    if (hadFocus && document.activeElement === document.body) element.focus({ preventScroll: true });
    now.first = first;
    now.drafts = drafts.length;
    look();
  });
  useEffect(markSeen, [last, thread.isLoaded, thread.row?.unreadCount]);
  useEffect(() => {
    document.addEventListener('visibilitychange', markSeen);
    return () => document.removeEventListener('visibilitychange', markSeen);
  }, []);

  return (
    <div
      class="log"
      role="log"
      aria-label="Messages"
      aria-busy={!thread.isLoaded || thread.isReadingOlder}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: who has no mouse scrolls it with the keyboard
      tabIndex={0}
      ref={log}
      onScroll={() => {
        look();
        markSeen();
      }}
    >
      {thread.error !== undefined && (
        <Failure error={thread.error} retry={() => void (thread.isLoaded ? thread.readOlder() : inbox.retry())} />
      )}
      {!thread.isLoaded && thread.error === undefined && <Empty>Loading …</Empty>}
      {thread.hasOlder && (
        <p class="more">
          <Button disabled={thread.isReadingOlder} onClick={() => thread.readOlder()}>
            Show older messages
          </Button>
        </p>
      )}
      {thread.isLoaded && messages.length + drafts.length === 0 && <Empty>No messages yet.</Empty>}
      <ol>
        {[
          ...messages.map((message) => (
            <li key={message.key} class={`message ${message.sender.toLowerCase()}`}>
              <p class="author">
                <bdi>{authorOf(message, inbox)}</bdi> <Time at={message.createdAt} />
              </p>
              <p class="content">{message.content}</p>
            </li>
          )),
          // In the same list, a draft that has become a message keeps its element, and is not read out again.
          ...drafts.map((draft) => (
            <li
              key={draft.key}
              class={draft.error === undefined ? 'message agent is-draft' : 'message agent has-failed'}
            >
              <p class="author">
                <bdi>{inbox.agent.name}</bdi> {draft.error === undefined ? 'Sending …' : 'Not sent'}
              </p>
              <p class="content">{draft.content}</p>
              {draft.error !== undefined && <NotSent inbox={inbox} draft={draft} />}
            </li>
          )),
        ]}
      </ol>
    </div>
  );
}

function NotSent({ inbox, draft }: { readonly inbox: Inbox; readonly draft: Draft }) {
  const isClosed = codeOf(draft.error) === 'CONVERSATION_CLOSED';
  async function reopen(): Promise<void> {
    if (await inbox.change({ status: 'ACTIVE' })) inbox.resend(draft);
  }
  return (
    <div class="not-sent">
      <p class="failure" role="alert">
        {wordsOf(draft.error)}
      </p>
      {isClosed && <Button onClick={reopen}>Reopen and send</Button>}
      {!isClosed && <Button onClick={() => inbox.resend(draft)}>Try again</Button>}
      <Button kind="danger" onClick={() => inbox.discard(draft)}>
        Discard
      </Button>
    </div>
  );
}

function authorOf({ sender, author }: Message, { thread }: Inbox): string {
  if (author?.name) return author.name;
  if (sender === 'VISITOR') return thread?.row?.visitor ? titleOf({ ...thread.row, subject: null }) : 'Visitor';
  return sender === 'AGENT' ? 'Agent' : 'Bot';
}

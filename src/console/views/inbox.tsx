import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Inbox as Model } from '../inbox/inbox.ts';
import { ListView } from '../inbox/list-view.tsx';
import { ThreadView } from '../inbox/thread-view.tsx';
import type { Live } from '../live.ts';
import type { Session } from '../session.ts';
import { Empty, type ViewProps } from '../ui.tsx';
import '../inbox.css';

/**
 * The inbox of the session: it goes on to follow the events while another view is open, and keeps what was typed, also into
 * the agent's next session.
 */
let kept: { readonly live: Live; readonly inbox: Model } | undefined;

function inboxOf(session: Session, live: Live): Model {
  if (kept?.live !== live) {
    const before = kept?.inbox.agent.id === session.agent.id ? kept.inbox : undefined;
    kept = { live, inbox: new Model({ session, live }, before) };
  }
  return kept.inbox;
}

addEventListener('beforeunload', (event) => {
  if (kept?.inbox.hasUnsent) event.preventDefault(); // the browser asks whether to leave
});

/** Forgets what was typed: the agent has signed out. */
export function forgetInbox(): void {
  kept = undefined;
}

export function Inbox({ session, live, path }: ViewProps) {
  const inbox = inboxOf(session, live);
  const [id] = path;
  const [, redraw] = useState({});
  useLayoutEffect(() => inbox.listen(() => redraw({})), [inbox]);
  useEffect(() => void inbox.start(), [inbox]);
  useEffect(() => {
    if (inbox.may('conversations:read')) void inbox.open(id);
  }, [inbox, id]);
  useEffect(() => {
    if (live.connection === 'live') void inbox.retry();
  }, [inbox, live.connection]);

  // Who goes back to the list comes to the conversation that was open.
  const before = useRef(id);
  const list = useRef<HTMLElement>(null);
  useEffect(() => {
    const left = before.current;
    before.current = id;
    if (left === undefined || id !== undefined) return;
    const link = list.current?.querySelector<HTMLElement>(`a[href="#/inbox/${CSS.escape(left)}"]`);
    (link ?? list.current?.querySelector<HTMLElement>('h2'))?.focus();
  }, [id]);

  if (!inbox.may('conversations:read'))
    return <Empty>Conversations cannot be shown: the key lacks the scope conversations:read.</Empty>;
  const thread = inbox.thread?.id === id ? inbox.thread : undefined;
  return (
    <div class={id === undefined ? 'inbox' : 'inbox has-thread'}>
      <h1 class="unseen">Inbox</h1>
      <section class="conversations" aria-label="Conversations" ref={list}>
        <ListView inbox={inbox} openId={id} isLive={live.connection !== 'off'} />
      </section>
      <section class="thread" aria-label="Conversation">
        {thread && <ThreadView key={thread.id} inbox={inbox} thread={thread} />}
        {id === undefined && <Empty>Choose a conversation to read and answer it.</Empty>}
      </section>
    </div>
  );
}

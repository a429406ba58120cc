import type { ComponentType } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Live } from './live.ts';
import { knownAgent, resume, type Session, signIn, signOut } from './session.ts';
import { Failure, type ViewProps, wordsOf } from './ui.tsx';
import { Analytics } from './views/analytics.tsx';
import { Events } from './views/events.tsx';
import { Inbox } from './views/inbox.tsx';
import { Keys } from './views/keys.tsx';
import { Leads } from './views/leads.tsx';
import { Webhooks } from './views/webhooks.tsx';

const views: Readonly<Record<string, { readonly name: string; readonly View: ComponentType<ViewProps> }>> = {
  inbox: { name: 'Inbox', View: Inbox },
  leads: { name: 'Leads', View: Leads },
  events: { name: 'Events', View: Events },
  webhooks: { name: 'Webhooks', View: Webhooks },
  analytics: { name: 'Analytics', View: Analytics },
  keys: { name: 'Keys', View: Keys },
};

/** The address after the `#`: `#/inbox/conv_…` opens a conversation. */
function usePath(): readonly string[] {
  const read = (): string[] => location.hash.replace(/^#\//, '').split('/').filter(Boolean).map(decodeURIComponent);
  const [path, setPath] = useState(read);
  useEffect(() => {
    const onChange = (): void => setPath(read());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return path;
}

export function App() {
  const [session, setSession] = useState<Session | 'unknown' | undefined>('unknown');
  const [failure, setFailure] = useState<unknown>();
  const [round, setRound] = useState(0);
  const onEnd = (): void => setSession(undefined);
  useEffect(() => {
    setFailure(undefined);
    resume(onEnd).then(setSession, setFailure);
  }, [round]);

  if (failure !== undefined)
    return (
      <main class="alone">
        <Failure error={failure} retry={() => setRound(round + 1)} />
      </main>
    );
  if (session === 'unknown') return <main class="alone" aria-busy="true" />;
  if (session === undefined) return <SignIn onEnd={onEnd} onSession={setSession} />;
  return <Shell session={session} onLeave={() => setSession(undefined)} />;
}

function SignIn({ onSession, onEnd }: { readonly onSession: (session: Session) => void; readonly onEnd: () => void }) {
  const agent = knownAgent();
  const [failure, setFailure] = useState<string>();
  const [isBusy, setIsBusy] = useState(false);
  async function submit(form: HTMLFormElement): Promise<void> {
    const given = new FormData(form);
    const text = (name: string): string => String(given.get(name) ?? '').trim();
    setIsBusy(true);
    setFailure(undefined);
    try {
      onSession(await signIn(text('key'), { id: text('id'), name: text('name') }, onEnd));
    } catch (error) {
      setFailure(wordsOf(error));
      setIsBusy(false);
    }
  }
  return (
    <main class="alone">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void submit(event.currentTarget);
        }}
      >
        <h1>Conversations</h1>
        <label>
          API key
          <input
            name="key"
            type="password"
            autocomplete="off"
            required
            pattern="\s*cs_.*"
            title="An API key begins with cs_."
          />
        </label>
        <label>
          Your name, as visitors see it
          <input name="name" autocomplete="name" maxLength={128} defaultValue={agent.name} required />
        </label>
        <label>
          Your id, as assignee and reader
          <input name="id" autocomplete="username" maxLength={128} defaultValue={agent.id} required />
        </label>
        {failure && (
          <p class="failure" role="alert">
            {failure}
          </p>
        )}
        <button type="submit" class="main" disabled={isBusy}>
          Sign in
        </button>
        <p class="hint">The key is sent once. This browser then has a cookie in its place, for twelve hours.</p>
      </form>
    </main>
  );
}

function Shell({ session, onLeave }: { readonly session: Session; readonly onLeave: () => void }) {
  const [, redraw] = useState({});
  const live = useMemo(() => new Live(session.client, () => redraw({})), [session]);
  useEffect(() => {
    void live.start();
    return () => live.stop();
  }, [live]);
  const [name = 'inbox', ...path] = usePath();
  const { View } = views[name] ?? { View: Inbox };

  async function leave(): Promise<void> {
    await signOut();
    onLeave();
  }

  return (
    <div class="shell">
      <header>
        <strong>Conversations</strong>
        <nav aria-label="Views">
          {Object.entries(views).map(([each, { name: label }]) => (
            <a key={each} href={`#/${each}`} aria-current={each === name ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <span class={`connection ${live.connection}`} role="status">
          {live.connection === 'live' ? 'Live' : 'Connecting …'}
        </span>
        <button type="button" class="plain" onClick={() => void leave()}>
          Sign out
        </button>
      </header>
      <main>
        <View key={name} session={session} live={live} path={path} />
      </main>
    </div>
  );
}

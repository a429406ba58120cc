import type { ComponentType } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ServiceError } from '../client/index.ts';
import { type Connection, Live, pauseMs } from './live.ts';
import {
  type Agent,
  agentIdPattern,
  knownAgent,
  type OnEnd,
  resume,
  type Session,
  signIn,
  signOut,
} from './session.ts';
import { Failure, KeyField, type ViewProps, wordsOf } from './ui.tsx';
import { Analytics } from './views/analytics.tsx';
import { Events } from './views/events.tsx';
import { forgetInbox, Inbox } from './views/inbox.tsx';
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

/** How it is said whether what is shown is kept up to date. */
const connections: Readonly<Record<Connection, string>> = {
  connecting: 'Connecting …',
  live: 'Live',
  off: 'Not live: the key lacks the scope events:read.',
};

/** The address after the `#`: `#/inbox/conv_…` opens a conversation. */
function usePath(): readonly string[] {
  const read = (): string[] => location.hash.replace(/^#\//, '').split('/').filter(Boolean).map(decoded);
  const [path, setPath] = useState(read);
  // A layout effect comes with the first drawing: no change can come between.
  useLayoutEffect(() => {
    const onChange = (): void => setPath(read());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return path;
}

/** Somebody may have written the address. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function App() {
  const [session, setSession] = useState<Session | 'unknown' | undefined>('unknown');
  const [failure, setFailure] = useState<unknown>();
  const [whyEnded, setWhyEnded] = useState<string>();
  const [round, setRound] = useState(0);
  const sessions = useRef(0);
  /** What ends the next session, and no later one. */
  const ending = (): OnEnd => {
    const own = ++sessions.current;
    return (why) => {
      if (own !== sessions.current) return;
      setWhyEnded(why);
      setSession(undefined);
    };
  };
  useEffect(() => {
    let next: ReturnType<typeof setTimeout> | undefined;
    const resumed = (found: Session | undefined): void => {
      setFailure(undefined);
      setSession(found);
    };
    resume(ending()).then(resumed, (error: unknown) => {
      setFailure(error);
      if (isAway(error)) next = setTimeout(() => setRound(round + 1), pauseMs(round));
    });
    return () => clearTimeout(next);
  }, [round]);

  if (failure !== undefined)
    return (
      <main class="alone">
        <Failure error={failure} retry={() => setRound(round + 1)} />
        {isAway(failure) && <p class="hint">It goes on by itself when the service is back.</p>}
      </main>
    );
  if (session === 'unknown') return <main class="alone" aria-busy="true" />;
  if (session === undefined) {
    const begin = async (apiKey: string, agent: Agent): Promise<void> => {
      setSession(await signIn(apiKey, agent, ending()));
      setWhyEnded(undefined);
    };
    return <SignIn begin={begin} notice={whyEnded} />;
  }
  const leave = (): void => {
    setSession(undefined);
    forgetInbox();
  };
  return <Shell session={session} onLeave={leave} />;
}

/** Whether what has failed may pass: the service has not refused it. */
const isAway = (error: unknown): boolean => !(error instanceof ServiceError);

interface SignInProps {
  readonly begin: (apiKey: string, agent: Agent) => Promise<void>;
  /** Why somebody who was here has to sign in again. */
  readonly notice: string | undefined;
}

function SignIn({ begin, notice }: SignInProps) {
  const agent = knownAgent();
  const [failure, setFailure] = useState<string>();
  const [isBusy, setIsBusy] = useState(false);
  async function submit(form: HTMLFormElement): Promise<void> {
    const given = new FormData(form);
    const text = (name: string): string => String(given.get(name) ?? '').trim();
    setIsBusy(true);
    setFailure(undefined);
    try {
      await begin(text('key'), { id: text('id'), name: text('name') });
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
          if (!isBusy) void submit(event.currentTarget);
        }}
      >
        <h1>Conversations</h1>
        {notice && (
          <p class="hint" role="status">
            {notice}
          </p>
        )}
        <KeyField label="API key" />
        <label>
          Your name, as visitors see it
          <input name="name" autocomplete="name" maxLength={128} defaultValue={agent.name} required />
        </label>
        <label>
          Your id, as assignee and reader
          <input
            name="id"
            autocomplete="username"
            maxLength={128}
            pattern={agentIdPattern}
            title="Letters, digits and any of _ . : @ + -"
            defaultValue={agent.id}
            required
          />
        </label>
        {failure && (
          <p class="failure" role="alert">
            {failure}
          </p>
        )}
        <button type="submit" class="main" aria-disabled={isBusy}>
          Sign in
        </button>
        <p class="hint">The key is sent once. This browser then has a cookie in its place, for twelve hours.</p>
      </form>
    </main>
  );
}

function Shell({ session, onLeave }: { readonly session: Session; readonly onLeave: () => void }) {
  const [, redraw] = useState({});
  const live = useMemo(() => new Live(session, () => redraw({})), [session]);
  useEffect(() => {
    void live.start();
    return () => live.stop();
  }, [live]);
  const [name = 'inbox', ...path] = usePath();
  const { View } = (Object.hasOwn(views, name) ? views[name] : undefined) ?? { View: Inbox };

  const [failure, setFailure] = useState<unknown>();
  async function leave(): Promise<void> {
    try {
      await signOut();
      onLeave();
    } catch (error) {
      setFailure(error);
    }
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
          {connections[live.connection]}
        </span>
        <button type="button" class="plain" onClick={() => void leave()}>
          Sign out
        </button>
        {failure !== undefined && <Failure error={failure} />}
      </header>
      <main>
        <View key={name} session={session} live={live} path={path} />
      </main>
    </div>
  );
}

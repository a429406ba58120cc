import type { Event } from '../client/index.ts';

/** How a tab follows the events of its visitor. */
interface Following {
  /** Tabs with the same name follow the same events. */
  readonly name: string;
  /** Of the last event that was taken, or where it was read what came before. */
  cursor(): string | undefined;
  /** The events after the cursor. */
  follow(): AsyncIterable<Event>;
  take(event: Event): void;
  /** Reads everything anew, and stands at this cursor then, which is of before. */
  reload(at: string | undefined): Promise<void>;
  readonly signal: AbortSignal;
}

/** Between tabs: an event, where the tab that follows stands, or that another would like to know it. */
type Said = { readonly event: Event } | { readonly at: string | undefined } | 'where';

/**
 * Follows the events in one tab for all of them: it tells the others, and when it ends, another goes on. A tab that stands
 * somewhere else than the one that it listens to reads everything anew, so that nothing is missed between them. From then
 * on it stands where that one does, and need not do so again when another tab asks, or goes on.
 * @throws what `follow` and `reload` throw, and the signal's reason
 */
export async function followTogether({ name, cursor, follow, take, reload, signal }: Following): Promise<void> {
  if (!(await canMeet(name))) {
    for await (const event of follow()) take(event);
    return;
  }
  signal.throwIfAborted();
  const channel = new BroadcastChannel(name);
  const say = (said: Said): void => channel.postMessage(said);
  const listening = new AbortController();
  const abort = (): void => listening.abort(signal.reason);
  signal.addEventListener('abort', abort);

  /** Whether it stands where the tab that follows does. Before that, the first event that is heard may not be the next. */
  let isInStep = false;
  /** What is heard while everything is read anew. */
  let waiting: Said[] | undefined;
  let reading: Promise<void> | undefined;
  const hear = (said: Said): void => {
    if (said === 'where') return; // not from this one
    if (waiting !== undefined) waiting.push(said);
    else if ('event' in said) isInStep && take(said.event);
    else if (said.at === cursor()) isInStep = true;
    else {
      waiting = [];
      reading = reload(said.at).then(heard, (error: unknown) => listening.abort(error));
    }
  };
  const heard = (): void => {
    const all = waiting ?? [];
    waiting = undefined;
    isInStep = true;
    for (const each of all) hear(each);
  };

  try {
    channel.onmessage = ({ data }: MessageEvent<Said>) => hear(data);
    say('where');
    await navigator.locks.request(name, { signal: listening.signal }, async () => {
      await reading;
      channel.onmessage = ({ data }: MessageEvent<Said>) => data === 'where' && say({ at: cursor() });
      say({ at: cursor() });
      for await (const event of follow()) {
        take(event);
        say({ event });
      }
    });
  } finally {
    signal.removeEventListener('abort', abort);
    channel.close();
  }
}

/** Whether tabs can meet: in a page without TLS they can't, nor where the browser refuses storage. */
async function canMeet(name: string): Promise<boolean> {
  try {
    new BroadcastChannel(name).close();
    await navigator.locks.request(`${name} ?`, { mode: 'shared' }, () => {});
    return true;
  } catch {
    return false;
  }
}

import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ServiceError } from '../client/index.ts';
import type { Live } from './live.ts';
import type { Session } from './session.ts';

// What all views share.

export interface ViewProps {
  readonly session: Session;
  readonly live: Live;
  /** What comes after the view in the address: `['conv_…']` of `#/inbox/conv_…`. */
  readonly path: readonly string[];
}

/** An error in words for the person. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const faults = error instanceof ServiceError ? error.errors.map(({ detail }) => detail) : [];
  return [error.message, ...faults].join(' ');
}

export interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
  /** Reads anew; what is shown stays until then. */
  reload(): void;
  /** Changes what is shown, with what an event has told. */
  change(next: (data: T) => T): void;
}

/**
 * Reads what a view shows, and again whenever one of `keys` changes. What arrives late, for keys of before, is dropped.
 * @param read called once no event can be missed any more
 */
export function useLoaded<T>(
  live: Live,
  read: (signal: AbortSignal) => Promise<T>,
  keys: readonly unknown[],
): Loaded<T> {
  const [state, setState] = useState<{ data?: T | undefined; error?: unknown; isLoading: boolean }>({
    isLoading: true,
  });
  const [round, setRound] = useState(0);
  useEffect(() => {
    const over = new AbortController();
    setState(({ data }) => ({ data, isLoading: true }));
    const load = async (): Promise<void> => {
      try {
        await live.ready;
        const data = await read(over.signal);
        if (!over.signal.aborted) setState({ data, isLoading: false });
      } catch (error) {
        if (!over.signal.aborted) setState(({ data }) => ({ data, error, isLoading: false }));
      }
    };
    void load();
    return () => over.abort();
  }, [live, round, ...keys]);
  return {
    data: state.data,
    error: state.error,
    isLoading: state.isLoading,
    reload: () => setRound((each) => each + 1),
    change: (next) => setState((now) => (now.data === undefined ? now : { ...now, data: next(now.data) })),
  };
}

/** An error, which a screen reader says at once, with a button that tries again. */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  return (
    <p class="failure" role="alert">
      {wordsOf(error)}{' '}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

export function Empty({ children }: { readonly children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const minute = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'medium' });

/** A time, short: of today as hours and minutes, else as a date. Pointing at it shows all of it. */
export function Time({ at }: { readonly at: string }) {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date().toDateString();
  return (
    <time dateTime={at} title={full.format(time)}>
      {isToday ? minute.format(time) : day.format(time)}
    </time>
  );
}

/** One of a few words, with a colour: a status, say. */
export function Badge({ kind, children }: { readonly kind: string; readonly children: ComponentChildren }) {
  return <span class={`badge ${kind.toLowerCase()}`}>{children}</span>;
}

export function Button(props: {
  readonly children: ComponentChildren;
  readonly onClick: () => unknown;
  readonly kind?: 'main' | 'danger' | 'plain';
  readonly disabled?: boolean;
  readonly label?: string;
}) {
  return (
    <button
      type="button"
      class={props.kind ?? 'plain'}
      disabled={props.disabled ?? false}
      aria-label={props.label}
      onClick={() => void props.onClick()}
    >
      {props.children}
    </button>
  );
}

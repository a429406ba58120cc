import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ServiceError } from '../client/index.ts';
import { newKey } from '../client/key.ts';
import type { Live } from './live.ts';
import type { Session } from './session.ts';

// What all views share.

export interface ViewProps {
  readonly session: Session;
  readonly live: Live;
  /** What comes after the view in the address: `['conv_…']` of `#/inbox/conv_…`. */
  readonly path: readonly string[];
}

/** An error in words for the person. Faults of fields are said with the name of the field, each once. */
export function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof TypeError) return 'The service cannot be reached.'; // what `fetch` says differs between browsers
  const faults = error instanceof ServiceError ? error.errors : [];
  if (faults.length === 0) return error.message;
  const fieldOf = (pointer: string): string =>
    pointer
      .replace(/\/\d+$/, '')
      .split('/')
      .at(-1) ?? '';
  return faults.map(({ pointer = '', detail }) => `${fieldOf(pointer)}: ${detail}.`).join(' ');
}

interface Loaded<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
  /** Reads anew; what is shown stays until then. */
  reload(): void;
  /**
   * Changes what is shown, with what an event has told. While it is being read, what is read is changed, too: so it has to
   * make no difference to what has changed already.
   */
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
  /** What has been changed since reading began; undefined while nothing is read. */
  const changes = useRef<((data: T) => T)[] | undefined>(undefined);
  useEffect(() => {
    const over = new AbortController();
    const changed: ((data: T) => T)[] = [];
    changes.current = changed;
    setState(({ data }) => ({ data, isLoading: true }));
    const load = async (): Promise<void> => {
      try {
        await live.ready;
        const answer: T = await read(over.signal);
        if (over.signal.aborted) return;
        const data = changed.reduce<T>((before, next) => next(before), answer);
        changes.current = undefined;
        setState({ data, isLoading: false });
      } catch (error) {
        if (over.signal.aborted) return;
        changes.current = undefined;
        setState(({ data }) => ({ data, error, isLoading: false }));
      }
    };
    void load();
    return () => over.abort();
  }, [live, round, ...keys]);
  const reload = (): void => setRound((each) => each + 1);
  // What could not be read while the service was away is read once it is heard of again.
  useEffect(() => {
    if (live.connection === 'live' && state.error !== undefined) reload();
  }, [live.connection]);
  return {
    data: state.data,
    error: state.error,
    isLoading: state.isLoading,
    reload,
    change: (next) => {
      changes.current?.push(next);
      setState((now) => (now.data === undefined ? now : { ...now, data: next(now.data) }));
    },
  };
}

/** A page of a list, as connections of the API have them. */
export interface Page<T> {
  readonly nodes: readonly T[];
  readonly pageInfo: { readonly endCursor: string | null; readonly hasNextPage: boolean };
}

interface LoadedPages<T> extends Loaded<Page<T>> {
  /** Reads the next page. */
  readMore(): void;
  readonly isLoadingMore: boolean;
  /** Why the next page could not be read. */
  readonly moreError: unknown;
}

/**
 * Reads a list page by page, and anew whenever one of `keys` changes.
 * @param read the page after a cursor, or the first one
 */
export function usePages<T extends { readonly id: string }>(
  live: Live,
  read: (after: string | null, signal: AbortSignal) => Promise<Page<T>>,
  keys: readonly unknown[],
): LoadedPages<T> {
  const loaded = useLoaded(live, (signal) => read(null, signal), keys);
  const [more, setMore] = useState<{ isLoading: boolean; error?: unknown }>({ isLoading: false });
  const over = useRef(new AbortController());
  useEffect(() => {
    const current = new AbortController();
    over.current = current;
    setMore({ isLoading: false });
    return () => current.abort();
  }, keys);
  async function readMore(after: string | null, signal: AbortSignal): Promise<void> {
    setMore({ isLoading: true });
    try {
      const next = await read(after, signal);
      if (signal.aborted) return;
      loaded.change((page) => {
        if (page.pageInfo.endCursor !== after) return page; // it was read anew meanwhile
        const known = new Set(page.nodes.map(({ id }) => id));
        return { ...next, nodes: [...page.nodes, ...next.nodes.filter(({ id }) => !known.has(id))] };
      });
      setMore({ isLoading: false });
    } catch (error) {
      if (!signal.aborted) setMore({ isLoading: false, error });
    }
  }
  return {
    ...loaded,
    readMore: () => void readMore(loaded.data?.pageInfo.endCursor ?? null, over.current.signal),
    isLoadingMore: more.isLoading,
    moreError: more.error,
  };
}

export interface Action {
  readonly isBusy: boolean;
  /** Why it failed the last time. */
  readonly error: unknown;
  /** Aborts what was run before, if that is not done yet. */
  run(work: (signal: AbortSignal) => Promise<unknown>): void;
  /** Runs again what was run last. */
  again(): void;
}

/** What a button does that takes a while. */
export function useAction(): Action {
  const [state, setState] = useState<{ isBusy: boolean; error?: unknown }>({ isBusy: false });
  const running = useRef(new AbortController());
  const last = useRef<(signal: AbortSignal) => Promise<unknown>>(undefined);
  async function run(work: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    last.current = work;
    running.current.abort();
    running.current = new AbortController();
    const { signal } = running.current;
    setState({ isBusy: true });
    try {
      await work(signal);
      if (!signal.aborted) setState({ isBusy: false });
    } catch (error) {
      if (!signal.aborted) setState({ isBusy: false, error });
    }
  }
  return {
    ...state,
    error: state.error,
    run: (work) => void run(work),
    again: () => void (last.current && run(last.current)),
  };
}

/**
 * An error, which a screen reader says at once, with a button that tries again. What the key may not do is none: trying
 * again would not help.
 */
export function Failure({ error, retry }: { readonly error: unknown; readonly retry?: () => void }) {
  if (error instanceof ServiceError && error.code === 'FORBIDDEN') {
    return (
      <p class="notice" role="status">
        {wordsOf(error)} It takes a key that may do this.
      </p>
    );
  }
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

/**
 * The heading of a page. It takes the focus where nothing has it, as when the button is gone that has deleted what the page
 * before showed; that of a page within a view takes it from the link that has led there, too.
 */
export function Heading({
  children,
  takesFocus,
}: {
  readonly children: ComponentChildren;
  readonly takesFocus?: true;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (takesFocus || document.activeElement === document.body) heading.current?.focus();
  }, [takesFocus]);
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  );
}

const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const minute = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'medium' });

/** A time, short: of today as hours and minutes, else as a date. Pointing at it shows all of it. */
export function Time({ at, isExact }: { readonly at: string; readonly isExact?: boolean }) {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date().toDateString();
  return (
    <time dateTime={at} title={full.format(time)}>
      {(isExact ? exact : isToday ? minute : day).format(time)}
    </time>
  );
}

/** One of a few words, with a colour: a status, say. */
export function Badge({ kind, children }: { readonly kind: string; readonly children: ComponentChildren }) {
  return <span class={`badge ${kind.toLowerCase()}`}>{children}</span>;
}

/** Asks for an API key, which the form sends under the name `key`. */
export function KeyField({ label }: { readonly label: string }) {
  return (
    <label>
      {label}
      <input
        name="key"
        type="password"
        autocomplete="off"
        required
        pattern="\s*cs_.*"
        title="An API key begins with cs_."
      />
    </label>
  );
}

/**
 * A button that keeps the focus while it is disabled, so that who has pressed it with a key goes on from there. The second
 * click of a double click is not for what has come in its place.
 */
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
      aria-disabled={props.disabled ?? false}
      aria-label={props.label}
      onClick={({ detail }) => void (props.disabled || detail > 1 || props.onClick())}
    >
      {props.children}
    </button>
  );
}

/** A table in a box of its own, which scrolls, also by the keyboard, where the page is too narrow for it. */
export function Table(props: {
  readonly caption: string;
  readonly head: readonly string[];
  readonly children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
    <section class="scrolls" aria-label={props.caption} tabIndex={0}>
      <table>
        <caption class="unseen">{props.caption}</caption>
        <thead>
          <tr>
            {props.head.map((each) => (
              <th key={each} scope="col">
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{props.children}</tbody>
      </table>
    </section>
  );
}

/**
 * A list as a table, with a button that reads the next page. Instead of rows it shows that the list is being read, why it
 * could not be, or that it is empty.
 */
export function PagedTable<T>(props: {
  readonly pages: LoadedPages<T>;
  readonly empty: ComponentChildren;
  readonly caption: string;
  readonly head: readonly string[];
  readonly children: (item: T) => ComponentChildren;
}) {
  const { data, error, reload, readMore, isLoadingMore, moreError } = props.pages;
  return (
    <>
      {error !== undefined && <Failure error={error} retry={reload} />}
      {error === undefined && data === undefined && <p class="hint">Loading …</p>}
      {error === undefined && data?.nodes.length === 0 && <Empty>{props.empty}</Empty>}
      {data && data.nodes.length > 0 && (
        <Table caption={props.caption} head={props.head}>
          {data.nodes.map(props.children)}
        </Table>
      )}
      {data?.pageInfo.hasNextPage && (
        <div class="row">
          <Button onClick={readMore} disabled={isLoadingMore}>
            Load more
          </Button>
          {moreError !== undefined && <Failure error={moreError} />}
        </div>
      )}
    </>
  );
}

/**
 * A modal dialog, open for as long as it is there. The browser gives the focus back to where it was; if that is gone, the
 * heading of the page gets it.
 * @param props.children gets what closes it
 */
function Dialog(props: {
  readonly title: string;
  readonly onClosed: () => void;
  readonly children: (close: () => void) => ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={title}
      onClose={({ currentTarget }) => {
        const focused = document.activeElement; // if that is gone: nothing, or for a moment yet what is within
        if (focused === document.body || currentTarget.contains(focused))
          document.querySelector<HTMLElement>('main h1')?.focus();
        props.onClosed();
      }}
    >
      <h2 id={title}>{props.title}</h2>
      {props.children(() => dialog.current?.close())}
    </dialog>
  );
}

/** A form in a dialog, which closes when what it asks for is done. */
export function FormDialog(props: {
  readonly title: string;
  readonly submitLabel: string;
  readonly isDangerous?: true;
  /** @param key the same when the same is submitted again, because its answer was lost */
  readonly submit: (given: FormData, key: string) => Promise<unknown>;
  readonly onClosed: () => void;
  readonly children: ComponentChildren;
}) {
  const { isBusy, error, run } = useAction();
  const keys = useRef(new Map<string, string>());
  return (
    <Dialog title={props.title} onClosed={props.onClosed}>
      {(close) => (
        <form
          class="fields"
          onSubmit={(event) => {
            event.preventDefault();
            if (isBusy) return;
            const given = new FormData(event.currentTarget);
            const fields = JSON.stringify([...given]);
            const key = keys.current.get(fields) ?? newKey();
            keys.current.set(fields, key);
            run(async () => {
              await props.submit(given, key);
              close();
            });
          }}
        >
          {props.children}
          {error !== undefined && <Failure error={error} />}
          <div class="row end">
            <Button onClick={close}>Cancel</Button>
            <button type="submit" class={props.isDangerous ? 'danger' : 'main'} aria-disabled={isBusy}>
              {props.submitLabel}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

/** Boxes to check, each with the name of a value of the API. `FormData.getAll(name)` has those that are checked. */
export function Choices<Value extends string>(props: {
  readonly legend: string;
  readonly name: string;
  readonly values: readonly Value[];
  readonly checked: readonly Value[];
  readonly nameOf: (value: Value) => string;
}) {
  return (
    <fieldset>
      <legend>{props.legend}</legend>
      <div class="choices">
        {props.values.map((value) => (
          <label key={value} class="choice">
            <input type="checkbox" name={props.name} value={value} defaultChecked={props.checked.includes(value)} />
            {props.nameOf(value)}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** A secret that the service tells once, to be copied. */
export function SecretDialog(props: {
  readonly title: string;
  readonly secret: string;
  readonly children: ComponentChildren;
  readonly onClosed: () => void;
}) {
  const field = useRef<HTMLInputElement>(null);
  const [said, setSaid] = useState('');
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(props.secret);
      setSaid('Copied.');
    } catch {
      // Browsers let pages write to the clipboard over https alone, and ask some people.
      field.current?.select();
      setSaid('It is selected: copy it with the keyboard.');
    }
  }
  return (
    <Dialog title={props.title} onClosed={props.onClosed}>
      {(close) => (
        <div class="fields">
          <p>{props.children} It is shown this once: keep it where only your programs can read it.</p>
          <label>
            Secret
            <input ref={field} class="code" readOnly value={props.secret} />
          </label>
          <div class="row end">
            <span class="hint" role="status">
              {said}
            </span>
            <Button onClick={copy}>Copy</Button>
            <Button kind="main" onClick={close}>
              Done
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  );
}

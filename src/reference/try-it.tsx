import { useEffect, useRef, useState } from 'preact/hooks';
import { laidOut, wordsOf } from '../browser/answers.ts';
import type { Caller } from '../browser/caller.ts';
import { useKind } from '../browser/caller-bar.tsx';
import { noteIds, seenIdFor, withSeenIds } from '../browser/ids.ts';
import type { OpenApiParameter } from '../rest/openapi/types.ts';
import { type Described, requestOf } from './requests.ts';

// A form that calls one operation, and its answer.

interface Answer {
  readonly status: number;
  readonly statusText: string;
  readonly ms: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: string;
}

/** Headers that say nothing about the operation. */
const dullHeaders =
  /^(connection|content-length|content-security-policy|date|keep-alive|referrer-policy|strict-|vary|x-content)/;

/** A stream is shown from so many characters before its end, and any other answer whole. */
const mostShown = 100_000;

interface TryItProps {
  readonly operation: Described;
  readonly caller: Caller;
  /** The address of the service. */
  readonly service: string;
}

export function TryIt({ operation, caller, service }: TryItProps) {
  const kind = useKind(caller);
  const [answer, setAnswer] = useState<Answer>();
  const [failure, setFailure] = useState<string>();
  const [calling, setCalling] = useState<AbortController>();
  useEffect(() => () => calling?.abort(), [calling]);

  async function call(form: HTMLFormElement): Promise<void> {
    const end = new AbortController();
    setCalling(end); // at once: its credential may have to be renewed, and the button can be pressed twice
    setAnswer(undefined);
    const given = new FormData(form);
    const { body = '', ...parameters } = Object.fromEntries(
      [...given].map(([name, value]) => [name, String(value).trim()]),
    );
    const [url, init] = requestOf(operation, { parameters, body }, service);
    const authorization = await caller.authorization();
    const start = performance.now();
    const response = await fetch(url, {
      ...init,
      headers: { ...init.headers, Authorization: authorization },
      signal: end.signal,
      cache: 'no-store', // what is shown is what the service answers now
    });
    const shown = {
      status: response.status,
      statusText: response.statusText,
      ms: performance.now() - start,
      headers: [...response.headers].filter(([name]) => !dullHeaders.test(name)),
    };
    let received = '';
    setAnswer({ ...shown, body: received });
    for await (const piece of textOf(response)) {
      received += piece;
      if (!operation.isStream) continue;
      received = received.slice(-mostShown);
      setAnswer({ ...shown, body: received });
    }
    noteIds(received);
    setAnswer({ ...shown, ms: performance.now() - start, body: laidOut(received) });
  }

  async function submit(form: HTMLFormElement): Promise<void> {
    setFailure(undefined);
    try {
      await call(form);
    } catch (error) {
      if ((error as Error).name !== 'AbortError') setFailure(wordsOf(error as Error));
    } finally {
      setCalling(undefined);
    }
  }

  const needed = operation.parameters.filter(({ required }) => required);
  const others = operation.parameters.filter(({ required }) => !required);
  return (
    <form
      class="try"
      onSubmit={(event) => {
        event.preventDefault();
        if (calling === undefined) void submit(event.currentTarget);
      }}
    >
      {needed.map((each) => (
        <Field key={each.name} parameter={each} of={operation.name} />
      ))}
      {others.length > 0 && (
        <details class="others">
          <summary>Optional parameters and headers ({others.length})</summary>
          {others.map((each) => (
            <Field key={each.name} parameter={each} of={operation.name} />
          ))}
        </details>
      )}
      {operation.body !== undefined && <BodyField example={withSeenIds(operation.body)} />}
      <div class="row">
        <button type="submit" class="main" aria-disabled={calling !== undefined}>
          Send
        </button>
        {calling && (
          <button
            type="button"
            onClick={({ currentTarget: { form } }) => {
              calling.abort();
              form?.querySelector<HTMLElement>('[type=submit]')?.focus(); // this one will be gone
            }}
          >
            Stop
          </button>
        )}
      </div>
      {failure !== undefined && (
        <p class="failure" role="alert">
          {failure} {kind === 'nobody' && <a href="#caller">It is asked for at the top of the page.</a>}
        </p>
      )}
      {answer && <AnswerBox answer={answer} isOpen={calling !== undefined} />}
    </form>
  );
}

function Field({ parameter, of }: { readonly parameter: OpenApiParameter; readonly of: string }) {
  const { name, in: place, required, schema, example } = parameter;
  const { items } = schema;
  const values = schema.type === 'boolean' ? [true, false] : schema.enum;
  const id = `${of}-${name}`;
  const shown = String(example ?? schema.default ?? '');
  return (
    <div class="parameter">
      <label for={id}>
        <code>{name}</code> <small>{place === 'query' ? (items ? 'list, with commas' : '') : place}</small>
      </label>
      {values ? (
        <select id={id} name={name} required={required}>
          <option value="" />
          {values.map((value) => (
            <option key={String(value)}>{String(value)}</option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          name={name}
          required={required}
          autocomplete="off"
          spellcheck={false}
          defaultValue={required ? seenIdFor(shown) || (place === 'query' ? shown : '') : ''}
          placeholder={shown}
        />
      )}
    </div>
  );
}

function BodyField({ example }: { readonly example: string }) {
  const field = useRef<HTMLTextAreaElement>(null);
  /** A body that is no JSON is not sent. */
  function check(): void {
    const { current } = field;
    if (!current) return;
    try {
      if (current.value.trim() !== '') JSON.parse(current.value);
      current.setCustomValidity('');
    } catch (error) {
      current.setCustomValidity(`This is no JSON: ${(error as Error).message}`);
    }
  }
  return (
    <label>
      <span>Body, as JSON</span>
      <textarea
        ref={field}
        name="body"
        rows={Math.min(18, example.split('\n').length + 1)}
        spellcheck={false}
        defaultValue={example}
        onInput={check}
      />
    </label>
  );
}

function AnswerBox({ answer, isOpen }: { readonly answer: Answer; readonly isOpen: boolean }) {
  const { status, statusText, ms, headers, body } = answer;
  return (
    <section class="answer" aria-label="Answer">
      <p role="status">
        <b class={status < 400 ? 'good' : 'bad'}>
          {status} {statusText}
        </b>{' '}
        <span class="hint">{isOpen ? 'open …' : `${ms.toFixed(0)} ms`}</span>
      </p>
      <dl>
        {headers.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {body !== '' && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by the keyboard
        <pre tabIndex={0}>{body}</pre>
      )}
    </section>
  );
}

/** The body of a response as it arrives. */
async function* textOf({ body }: Response): AsyncGenerator<string, void> {
  if (body === null) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) yield piece.value;
}

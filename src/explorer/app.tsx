import { type GraphQLSchema, type OperationDefinitionNode, parse, print } from 'graphql';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { wordsOf } from '../browser/answers.ts';
import type { Caller } from '../browser/caller.ts';
import { CallerBar, useKind } from '../browser/caller-bar.tsx';
import { noteIds, withSeenIds } from '../browser/ids.ts';
import { keep, kept } from '../browser/kept.ts';
import { type Answer, follow, type Operation, readSchema, send } from './calls.ts';
import { Editor, type Given } from './editor.tsx';
import { type Example, examplesOf } from './examples.ts';
import { SchemaView } from './schema-view.tsx';

/** Where the browser keeps the document over a reload of this tab. Variables and answers may hold secrets: they are not kept. */
const documentItem = 'conversation-explorer-document';

/** As many events of a subscription are shown. */
const mostEvents = 100;

const firstDocument = `# Give an API key or a token above.
# Then choose an example, or write a query: Ctrl+Space completes it.
query Latest {
  account {
    name
    plan
  }
  conversations(first: 5) {
    nodes {
      id
      status
      subject
      lastMessage {
        sender
        content
      }
    }
  }
}
`;

/** Which part a narrow screen shows. */
type Pane = 'write' | 'answer' | 'schema';

export function App({ caller }: { readonly caller: Caller }) {
  const [given, setGiven] = useState<Given>(() => ({ text: kept('sessionStorage', documentItem) ?? firstDocument }));
  const [givenVariables, setGivenVariables] = useState<Given>({ text: '{}' });
  /** As they are now, after what has been typed. */
  const written = useRef({ document: given.text, cursor: 0, variables: givenVariables.text });
  const { schema, failure: schemaFailure } = useSchema(caller);
  const [pane, setPane] = useState<Pane>('write');
  const [isSchemaOpen, setIsSchemaOpen] = useState(false);
  const calls = useCalls(caller);
  const answer = useMemo(() => ({ text: calls.text }), [calls.text]);

  function edited(document: string, cursor: number): void {
    Object.assign(written.current, { document, cursor });
    keep('sessionStorage', documentItem, document);
  }

  function run(): void {
    setPane('answer');
    calls.run(() => operationAt(written.current));
  }

  function prettify(): void {
    try {
      setGiven({ text: `${print(parse(written.current.document))}\n` });
    } catch (error) {
      calls.fail(error);
    }
  }

  function choose({ document, variables }: Example): void {
    setGiven({ text: document });
    setGivenVariables({ text: withSeenIds(variables) });
    setPane('write');
  }

  return (
    <>
      <header class="bar">
        <a class="home" href="./">
          <img src="favicon.svg" alt="" /> Conversation service
        </a>
        <h1>GraphQL</h1>
        <CallerBar caller={caller} />
        {schemaFailure && (
          <p class="failure" role="alert">
            {schemaFailure}
          </p>
        )}
      </header>
      <main class={`${pane} ${isSchemaOpen ? 'with-schema' : ''}`}>
        <div class="tools">
          {calls.isRunning ? (
            <button type="button" class="main" onClick={calls.stop}>
              Stop
            </button>
          ) : (
            <button type="button" class="main" onClick={run}>
              Run
            </button>
          )}
          <button type="button" onClick={prettify}>
            Prettify
          </button>
          <ExampleMenu schema={schema} choose={choose} />
          <button
            type="button"
            class="wide"
            aria-expanded={isSchemaOpen}
            onClick={() => setIsSchemaOpen(!isSchemaOpen)}
          >
            Schema
          </button>
        </div>
        <div class="panes">
          {(['write', 'answer', 'schema'] as const).map((each) => (
            <button key={each} type="button" aria-pressed={pane === each} onClick={() => setPane(each)}>
              {{ write: 'Query', answer: 'Answer', schema: 'Schema' }[each]}
            </button>
          ))}
        </div>
        <section class="pane write" aria-label="Request">
          <h2 class="unseen">Query</h2>
          <Editor label="Query" language="graphql" given={given} onChange={edited} onRun={run} schema={schema} />
          <h2>Variables</h2>
          <Editor
            label="Variables"
            language="json"
            given={givenVariables}
            onChange={(variables) => Object.assign(written.current, { variables })}
            onRun={run}
          />
        </section>
        <section class="pane answer" aria-label="Answer">
          <p role="status" class={calls.isGood ? 'hint' : 'bad'}>
            {calls.about}
          </p>
          {calls.failure && (
            <p class="failure" role="alert">
              {calls.failure}
            </p>
          )}
          <Editor label="Answer" language="json" given={answer} />
        </section>
        <section class="pane schema" aria-label="Schema">
          {schema ? <SchemaView schema={schema} /> : <p class="hint">The schema is read when there is a credential.</p>}
        </section>
      </main>
    </>
  );
}

/** Reads the schema once there is a credential. */
function useSchema(caller: Caller): {
  readonly schema: GraphQLSchema | undefined;
  readonly failure: string | undefined;
} {
  const kind = useKind(caller);
  const [schema, setSchema] = useState<GraphQLSchema>();
  const [failure, setFailure] = useState<string>();
  useEffect(() => {
    setFailure(undefined);
    setSchema(undefined);
    if (kind === 'nobody') return;
    let isOver = false;
    readSchema(caller).then(
      (read) => !isOver && setSchema(read),
      (error: Error) => !isOver && setFailure(wordsOf(error)),
    );
    return () => {
      isOver = true;
    };
  }, [caller, kind]);
  return { schema, failure };
}

interface Calls extends Answer {
  readonly failure: string | undefined;
  readonly isRunning: boolean;
  /** @param read throws what is wrong with what was written */
  run(read: () => Operation & { readonly isSubscription: boolean }): void;
  stop(): void;
  fail(error: unknown): void;
}

const nothing: Answer = { text: '', about: 'Nothing has been run yet.', isGood: true };

/** Runs one operation at a time; another one ends it. */
function useCalls(caller: Caller): Calls {
  const [answer, setAnswer] = useState(nothing);
  const [failure, setFailure] = useState<string>();
  const [running, setRunning] = useState<AbortController>();
  const latest = useRef<AbortController>(undefined);
  useEffect(() => () => latest.current?.abort(), []);

  function fail(error: unknown): void {
    if (!(error instanceof Error) || error.name === 'AbortError') return;
    setFailure(wordsOf(error));
  }

  async function call(
    operation: Operation & { readonly isSubscription: boolean },
    signal: AbortSignal,
    showAnswer: (next: Answer) => void,
  ): Promise<void> {
    const { isSubscription, ...sent } = operation;
    if (!isSubscription) {
      const next = await send(caller, sent, signal);
      noteIds(next.text);
      showAnswer(next);
      return;
    }
    const events: string[] = [];
    const show = (about: string): void =>
      showAnswer({ about, isGood: true, text: events.length === 0 ? '' : `[\n${events.join(',\n')}\n]` });
    let all = 0;
    const count = (): string => (all === 1 ? '1 event' : `${all} events`);
    show('Listening. What happens from now on is shown here.');
    await follow(caller, sent, {
      signal,
      tell: (text) => {
        noteIds(text);
        events.unshift(text);
        events.length = Math.min(events.length, mostEvents);
        all++;
        show(`Listening: ${all > mostEvents ? `the last ${mostEvents} of ${count()}` : count()}, the newest first`);
      },
    });
    show(`Ended after ${count()}.`);
  }

  return {
    ...answer,
    failure,
    isRunning: running !== undefined,
    fail,
    stop: () => running?.abort(),
    run(read) {
      const own = new AbortController();
      latest.current?.abort();
      latest.current = own;
      const isLatest = (): boolean => latest.current === own;
      setFailure(undefined);
      setAnswer({ ...nothing, about: 'Waiting …' });
      setRunning(own);
      Promise.resolve()
        .then(() => call(read(), own.signal, (next) => isLatest() && setAnswer(next)))
        .catch((error: unknown) => {
          if (!isLatest()) return;
          setAnswer({ ...nothing, about: '' });
          fail(error);
        })
        .finally(() => setRunning((now) => (now === own ? undefined : now)));
    },
  };
}

interface Written {
  readonly document: string;
  readonly cursor: number;
  readonly variables: string;
}

/** The operation of a document at which the cursor is, else its first one. */
function operationAt({ document, cursor, variables }: Written): Operation & { readonly isSubscription: boolean } {
  const operations = parse(document).definitions.filter(
    (each): each is OperationDefinitionNode => each.kind === 'OperationDefinition',
  );
  const chosen = operations.find(({ loc }) => loc && loc.start <= cursor && cursor <= loc.end) ?? operations[0];
  if (chosen === undefined) throw new Error('There is no operation.');
  return {
    query: document,
    variables: variablesOf(variables),
    operationName: chosen.name?.value,
    isSubscription: chosen.operation === 'subscription',
  };
}

function variablesOf(text: string): Record<string, unknown> {
  if (text.trim() === '') return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The variables are no JSON: ${(error as Error).message}`);
  }
}

const kinds = { query: 'Queries', mutation: 'Mutations', subscription: 'Subscriptions' } as const;

function ExampleMenu(props: {
  readonly schema: GraphQLSchema | undefined;
  readonly choose: (example: Example) => void;
}) {
  const { schema, choose } = props;
  const examples = useMemo(() => (schema ? examplesOf(schema) : []), [schema]);
  return (
    <label class="examples">
      <span class="unseen">Example</span>
      <select
        value=""
        disabled={examples.length === 0}
        onChange={({ currentTarget }) => {
          const [kind, name] = currentTarget.value.split(' ');
          const example = examples.find((each) => each.kind === kind && each.name === name);
          currentTarget.value = '';
          if (example) choose(example);
        }}
      >
        <option value="">Examples …</option>
        {(['query', 'mutation', 'subscription'] as const).map((kind) => (
          <optgroup key={kind} label={kinds[kind]}>
            {examples
              .filter((example) => example.kind === kind)
              .map(({ name }) => (
                <option key={name} value={`${kind} ${name}`}>
                  {name}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
    </label>
  );
}

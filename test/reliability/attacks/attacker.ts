import { type Answer, type Cut, HttpConnection, requestBytes } from './connection.ts';
import { Outcomes, unfinished } from './outcomes.ts';
import type { Attack } from './table.ts';

/** Who attacks, and what was prepared for it. */
export interface Target {
  readonly url: string;
  readonly secret: string;
  readonly limits: Attack['limits'];
  /** The ids and cursors that the preparation has returned. */
  readonly fixture: Readonly<Record<string, string>>;
  /** Whether as much is sent as was seen, or just some of it. */
  readonly isLong: boolean;
}

/** A customer who prepares an attack, by what every customer may do. */
export class Customer {
  readonly url: string;
  readonly secret: string;

  constructor({ url, secret }: Pick<Target, 'url' | 'secret'>) {
    this.url = url;
    this.secret = secret;
  }

  // biome-ignore lint/suspicious/noExplicitAny: an answer has the shape that the request asks for
  async rest(method: string, path: string, body?: object): Promise<any> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.secret}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}`);
    return text === '' ? undefined : JSON.parse(text);
  }

  // biome-ignore lint/suspicious/noExplicitAny: the same
  async graphql(query: string, variables: object = {}): Promise<any> {
    const { data, errors } = await this.rest('POST', '/graphql', { query, variables });
    if (errors !== undefined) throw new Error(JSON.stringify(errors).slice(0, 500));
    return data;
  }

  /**
   * Repeats a mutation's field, fifty to a request, and four requests at a time.
   * @param declared the variables that the field names, with their types
   */
  async repeat(
    count: number,
    field: (index: number) => string,
    { declared = '', variables = {} }: { declared?: string; variables?: object } = {},
  ): Promise<void> {
    let sent = 0;
    const sendNext = async (): Promise<void> => {
      while (sent < count) {
        const from = sent;
        sent += 50;
        const fields = times(Math.min(50, count - from), (index) => `m${from + index}: ${field(from + index)}`);
        await this.graphql(`mutation ${declared} { ${fields.join(' ')} }`, variables);
      }
    };
    await Promise.all(times(4, sendNext));
  }

  /** A conversation with so many messages. @returns its id */
  async conversation(messages: number, content = 'Where is it?', more: object = {}): Promise<string> {
    const { id } = await this.rest('POST', '/v1/conversations', more);
    await this.repeat(messages, () => 'sendMessage(input: $i) { eventCursor }', {
      declared: '($i: SendMessageInput!)',
      variables: { i: { conversationId: id, content, sender: 'VISITOR' } },
    });
    return id;
  }
}

export function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

interface Sending {
  readonly connections: number;
  /** How many in all; without it, as many as there is time for. */
  readonly requests?: number;
  readonly forMs?: number;
}

/**
 * Sends requests on so many connections, on each one after the other; and opens another where one was closed.
 * @param requestOf is given what was answered before on the connection
 */
export async function send(
  { url }: Target,
  { connections, requests = Number.POSITIVE_INFINITY, forMs = 60_000 }: Sending,
  requestOf: (index: number, before: Answer | Cut | undefined) => Buffer,
): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const endMs = performance.now() + forMs;
  let next = 0;
  const all: HttpConnection[] = [];
  const sendAll = Promise.all(
    times(connections, async () => {
      let connection: HttpConnection | undefined;
      let before: Answer | Cut | undefined;
      while (next < requests && performance.now() < endMs) {
        if (connection?.isOpen !== true) {
          connection = new HttpConnection(url);
          all.push(connection);
        }
        before = await connection.ask(requestOf(next++, before));
        outcomes.addAnswer(before);
      }
    }),
  );
  // Who is not answered for long goes away.
  const isAnswered = await Promise.race([sendAll.then(() => true), sleep(forMs + 30_000).then(() => false)]);
  if (!isAnswered) outcomes.add('no answer for 30 s');
  for (const connection of all) connection.close();
  return outcomes;
}

/** Sends the same requests again and again, side by side, for some seconds or, in the short run, for a moment. */
export function sendInTurn(target: Target, requests: readonly Buffer[], connections = 16): Promise<Outcomes> {
  const sending = target.isLong ? { connections, forMs: 5_000 } : { connections: 6, forMs: momentMs };
  return send(target, sending, (index) => nth(requests, index));
}

export const momentMs = 600;

/** One of these, in turn. */
export function nth<T>(all: readonly T[], index: number): T {
  return all[index % all.length] as T;
}

/** Opens connections, a few at a time, each of which does something and stays; they all leave together. */
export async function hold(
  target: Target,
  { connections, forMs }: { connections: number; forMs: number },
  use: (connection: HttpConnection, index: number) => Promise<void>,
): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const all: HttpConnection[] = [];
  const endMs = performance.now() + forMs;
  const using: Promise<void>[] = [];
  for (let index = 0; index < connections && performance.now() < endMs; index++) {
    const connection = new HttpConnection(target.url);
    all.push(connection);
    const answered = connection.answer();
    const left = sleep(endMs - performance.now()).then((): undefined => undefined);
    using.push(
      Promise.race([answered, left]).then((answer: Answer | Cut | undefined) => {
        if (answer === undefined) outcomes.add(unfinished);
        else outcomes.addAnswer(answer);
      }),
    );
    await Promise.race([use(connection, index), sleep(endMs - performance.now())]);
    if (index % 20 === 19) await sleep(1);
  }
  await Promise.all(using);
  for (const connection of all) connection.close();
  return outcomes;
}

export function graphqlBytes({ secret }: Target, query: string, variables?: object): Buffer {
  return requestBytes('POST', '/graphql', { secret, body: { query, variables } });
}

/** A mutation with a field for each input. These are variables, because a document may not have many tokens. */
export function mutationBytes(target: Target, field: string, inputs: readonly object[]): Buffer {
  const type = `${field.charAt(0).toUpperCase()}${field.slice(1)}Input!`;
  const declared = inputs.map((_, index) => `$i${index}: ${type}`).join(' ');
  const fields = inputs.map((_, index) => `m${index}: ${field}(input: $i${index}) { eventCursor }`).join(' ');
  const variables = Object.fromEntries(inputs.map((input, index) => [`i${index}`, input]));
  return graphqlBytes(target, `mutation (${declared}) { ${fields} }`, variables);
}

/** The field so often, each time under another name. */
export function aliases(count: number, field: string, prefix = 'a'): string {
  return times(count, (index) => `${prefix}${index}:${field}`).join(' ');
}

import { buildClientSchema, type GraphQLSchema, getIntrospectionQuery, type IntrospectionQuery } from 'graphql';
import { createClient } from 'graphql-ws/client';
import { laidOut } from '../browser/answers.ts';
import type { Caller } from '../browser/caller.ts';
import { service } from '../console/session.ts';

// What the page sends: queries and mutations by POST, subscriptions over a socket, with the same credential.

export interface Operation {
  readonly query: string;
  readonly variables: Record<string, unknown>;
  readonly operationName: string | undefined;
}

export interface Answer {
  /** What came, as JSON. */
  readonly text: string;
  /** In a few words: the status, how long it took, how many more there may be. */
  readonly about: string;
  readonly isGood: boolean;
}

/** @throws Error with what to tell the person */
export async function send(caller: Caller, operation: Operation, signal?: AbortSignal): Promise<Answer> {
  const authorization = await caller.authorization();
  const start = performance.now();
  const response = await fetch(`${service}/graphql`, {
    method: 'POST',
    headers: {
      Authorization: authorization,
      'Content-Type': 'application/json',
      Accept: 'application/graphql-response+json',
    },
    body: JSON.stringify(operation),
    signal: signal ?? null,
  });
  const received = await response.text();
  const remaining = response.headers.get('X-RateLimit-Remaining');
  return {
    text: laidOut(received),
    about: [
      response.status,
      `${(performance.now() - start).toFixed(0)} ms`,
      ...(remaining === null ? [] : [`${Number(remaining).toLocaleString()} requests left`]),
    ].join(' · '),
    isGood: response.ok && !/^\{\s*"errors"/.test(received),
  };
}

/**
 * Tells of what comes, until the signal ends it.
 * @throws Error with what to tell the person
 */
export async function follow(
  caller: Caller,
  operation: Operation,
  { signal, tell }: { readonly signal: AbortSignal; readonly tell: (text: string) => void },
): Promise<void> {
  const authorization = await caller.authorization();
  signal.throwIfAborted();
  const socket = createClient({
    url: `${service.replace(/^http/, 'ws')}/graphql`,
    connectionParams: { authorization },
    retryAttempts: 0, // a gap would not be seen
  });
  const { query, variables, operationName = null } = operation;
  try {
    await new Promise<void>((resolve, reject) => {
      const leave = socket.subscribe(
        { query, variables, operationName },
        {
          next: (result) => tell(laidOut(JSON.stringify(result))),
          error: (thrown) => reject(refusalOf(thrown)),
          complete: resolve,
        },
      );
      signal.addEventListener('abort', leave);
    });
  } finally {
    await socket.dispose();
  }
}

/** @throws Error with what to tell the person */
export async function readSchema(caller: Caller): Promise<GraphQLSchema> {
  const query = getIntrospectionQuery({ inputValueDeprecation: true });
  const { text, about } = await send(caller, { query, variables: {}, operationName: undefined });
  const { data, errors } = parsed(text) as { data?: IntrospectionQuery; errors?: { message: string }[] };
  if (data === undefined) throw new Error(errors?.[0]?.message ?? `The schema could not be read: ${about}.`);
  return buildClientSchema(data);
}

/** What a proxy answers in place of the service may be no JSON. */
function parsed(text: string): object {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}

/** What the service says when it refuses a subscription, or closes the socket. */
function refusalOf(thrown: unknown): Error {
  if (Array.isArray(thrown)) return new Error(thrown.map(({ message }) => message).join(' '));
  const { code, reason } = thrown as Partial<CloseEvent>;
  return new Error(reason ? `${reason} (${code})` : 'The connection is lost.');
}

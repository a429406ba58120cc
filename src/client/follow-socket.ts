import type { Client as SocketClient } from 'graphql-ws/client';
import type { Transport } from './client.ts';
import { errorOfGraphQL, mayPassForFollower, ServiceError } from './errors.ts';
import type { FollowOptions } from './follow-stream.ts';
import type { EventType } from './types.ts';
import { backOffMs, wait, whenOnline } from './waiting.ts';

export interface SocketFollowOptions extends FollowOptions {
  /** What to read of each event: a selection of GraphQL on the interface `Event`, such as `... on MessageSentEvent { message { content } }`. */
  readonly select?: string;
  /** A class to use instead of the global `WebSocket`: `ws` in an older Node.js, say. */
  readonly webSocketImpl?: unknown;
}

/** What each event has, whatever is selected. Its type is spelt as everywhere in this client. */
export interface EventOfSocket {
  readonly __typename: string;
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: string;
  readonly cursor: string;
}

/**
 * So often the service is asked whether it is there. A connection on which no answer comes for as long, or that does not
 * open, is taken for dead.
 */
const askingMs = 20_000;

/** As many events may wait for who follows. Then no more are asked for until all of them have been taken. */
const mostWaiting = 500;

/** Follows the log over a WebSocket, and goes on after the last event whatever happens to the connection. */
export async function* followSocket(
  transport: Transport,
  { after, types, conversationId, select = '', signal, webSocketImpl }: SocketFollowOptions,
): AsyncGenerator<EventOfSocket, void> {
  const ended = new AbortController();
  const socket = await connect(transport, signal, webSocketImpl, ended.signal);
  const waiting: EventOfSocket[] = [];
  let cursor = after;
  const query = `subscription Follow($after: String, $types: [EventType!], $conversationId: ID) {
    events(after: $after, types: $types, conversationId: $conversationId) { __typename id type timestamp cursor ${select} }
  }`;
  const variables = {
    types: types?.map((type) => type.replace('.', '_').toUpperCase()), // as GraphQL spells them
    conversationId,
    // Read anew whenever the socket is connected again.
    get after() {
      return cursor;
    },
  };
  let wake = (): void => {};
  let leave = wake;
  const stop = (): void => {
    wake();
    leave(); // what closes the socket, because nothing else uses it
    setTimeout(() => socket.terminate()); // if it is still connecting, which can take long
  };
  signal?.addEventListener('abort', stop);
  try {
    for (let refusals = 0; ; ) {
      let over: { readonly thrown?: unknown } | undefined;
      const end = (thrown?: unknown): void => {
        over ??= { thrown };
        wake(); // first, so that the next subscription keeps the connection
        leave();
      };
      leave = socket.subscribe<{ eventCursor?: string; events?: EventOfSocket }>(
        // Without a cursor, what happens during a break before the first event would be lost.
        cursor ? { query, variables } : { query: '{ eventCursor }' },
        {
          next({ data, errors }) {
            if (over) return;
            if (errors || !data) return end(errors ?? []);
            refusals = 0;
            const { eventCursor, events: event } = data;
            // Of what is received, not of what is taken: the socket may be connected again in between.
            cursor = event?.cursor ?? eventCursor;
            if (event) waiting.push({ ...event, type: event.type.toLowerCase().replace('_', '.') as EventType });
            if (!event || waiting.length === mostWaiting) end();
            wake();
          },
          error: end,
          complete: () => end(new ServiceError('The subscription has ended.', { code: 'UNAVAILABLE' })),
        },
      );
      while (waiting[0] || !over) {
        signal?.throwIfAborted();
        const event = waiting.shift();
        if (event) yield event;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
      if (over.thrown) {
        const error = refusalOf(over.thrown);
        if (!(error instanceof ServiceError) || !mayPassForFollower(error)) throw error;
        await wait(backOffMs(refusals++, error.retryAfterSeconds), signal);
      }
    }
  } finally {
    signal?.removeEventListener('abort', stop);
    ended.abort();
    stop();
  }
}

/** A client of graphql-ws that connects again whenever its connection is lost, or does not answer any more. */
async function connect(
  { url, credential }: Transport,
  signal: AbortSignal | undefined,
  webSocketImpl: unknown,
  ended: AbortSignal,
): Promise<SocketClient> {
  const { createClient } = await import('graphql-ws/client'); // its server would bring graphql into the page
  signal?.throwIfAborted();
  let failures = 0;
  let refused = 0;
  let refusal: unknown;
  let authorization = '';
  let unanswered: ReturnType<typeof setTimeout> | undefined;
  const awaitAnswer = (): void => {
    unanswered = setTimeout(() => socket.terminate(), askingMs);
  };
  const answered = (): void => clearTimeout(unanswered);
  const Given = (webSocketImpl ?? globalThis.WebSocket) as typeof WebSocket | undefined;
  const socket = createClient({
    url: `${url.replace(/^http/i, 'ws')}/graphql`,
    webSocketImpl:
      Given &&
      new Proxy(Given, {
        construct(_, [address, protocol]) {
          try {
            const given = new Given(address, protocol);
            // graphql-ws stops listening to one that it ends. ws would throw the error of one that is not open yet.
            given.addEventListener('error', () => {});
            return given;
          } catch (error) {
            refusal = error; // of the policy of a page, say, which graphql-ws would tell nobody
            setTimeout(socket.terminate);
            return { close() {} };
          }
        },
      }),
    connectionParams: async () => {
      try {
        authorization = await credential.authorization();
        return { authorization };
      } catch (error) {
        if (error instanceof ServiceError) refusal = error;
        socket.terminate(); // thrown, it would also end the next connection, with the close of this one
        return undefined;
      }
    },
    keepAlive: askingMs,
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: (lost) => {
      const thrown = refusal;
      refusal = undefined;
      if (thrown) throw thrown;
      if (!isRefused(lost)) return true;
      credential.renew(authorization);
      return credential.isRenewable && refused++ === 0;
    },
    // It must not reject: graphql-ws would neither go on nor end.
    retryWait: async () => {
      await wait(backOffMs(failures++), signal).catch(() => {});
    },
    on: {
      connecting: awaitAnswer,
      opened: answered,
      connected: () => {
        failures = refused = 0;
      },
      ping: (received) => {
        if (!received) awaitAnswer();
      },
      pong: answered,
      closed: answered,
    },
  });
  whenOnline(() => {
    failures = 0;
    socket.terminate();
  }, ended);
  return socket;
}

/** Whether the token has expired, or was refused. */
const isRefused = (lost: unknown): boolean => (lost as { code?: number }).code === 4403;

/** What the service says when it refuses an operation, or closes the socket for good; anything else as it is. */
function refusalOf(thrown: unknown): unknown {
  if (Array.isArray(thrown)) return errorOfGraphQL(thrown); // of an `error` message
  const { code, reason } = thrown as Partial<CloseEvent>;
  return reason === undefined
    ? thrown
    : new ServiceError(reason || `Closed: ${code}`, {
        code: code === 4429 ? 'RATE_LIMITED' : isRefused(thrown) ? 'UNAUTHENTICATED' : 'INTERNAL',
      });
}

import type { Client as SocketClient } from 'graphql-ws/client';
import type { Transport } from './client.ts';
import { errorOfGraphQL, ServiceError } from './errors.ts';
import { type FollowOptions, passing } from './follow-stream.ts';
import type { EventType } from './types.ts';
import { backOffMs, wait } from './waiting.ts';

export interface SocketFollowOptions extends FollowOptions {
  /** What to read of each event: a selection of GraphQL on the interface `Event`, such as `... on MessageSentEvent { message { content } }`. */
  readonly select?: string;
}

/** What each event has, whatever is selected. Its type is spelt as everywhere in this client. */
export interface EventOfSocket {
  readonly __typename: string;
  readonly id: string;
  readonly type: EventType;
  readonly timestamp: string;
  readonly cursor: string;
}

/** So often the service is asked whether it is there. After as long without an answer, the connection is taken for dead. */
const askingMs = 20_000;

/** Follows the log over a WebSocket, and goes on after the last event whatever happens to the connection. */
export async function* followSocket(
  transport: Transport,
  { after, types, conversationId, select = '', signal }: SocketFollowOptions,
): AsyncGenerator<EventOfSocket, void> {
  const socket = await connect(transport, signal);
  let results: AsyncIterableIterator<unknown> | undefined;
  // It rejects when there is no connection.
  const close = async (): Promise<void> => await Promise.resolve(socket.dispose()).catch(() => {});
  const stop = (): void => {
    void results?.return?.();
    void close();
    setTimeout(() => socket.terminate()); // if it is still connecting, which can take long
  };
  signal?.addEventListener('abort', stop);
  let cursor = after;
  let refusals = 0;
  async function* subscribe(): AsyncGenerator<EventOfSocket, never> {
    // Without a cursor, what happens during a break before the first event would be lost.
    if (cursor === undefined) {
      const start = socket.iterate<{ eventCursor: string }>({ query: '{ eventCursor }' });
      results = start;
      const { value } = await start.next();
      signal?.throwIfAborted();
      if (value?.data == null) throw errorOfGraphQL(value?.errors ?? []);
      cursor = value.data.eventCursor;
    }
    const variables = {
      types: types?.map((type) => type.replace('.', '_').toUpperCase()), // as GraphQL spells them
      conversationId,
      // Read anew whenever the socket is connected again.
      get after() {
        return cursor;
      },
    };
    const query = `subscription Follow($after: String, $types: [EventType!], $conversationId: ID) {
      events(after: $after, types: $types, conversationId: $conversationId) { __typename id type timestamp cursor ${select} }
    }`;
    const events = socket.iterate<{ events: EventOfSocket }>({ query, variables });
    results = events;
    for await (const { data, errors } of events) {
      if (errors !== undefined || data == null) throw errorOfGraphQL(errors ?? []);
      refusals = 0;
      const { events: event } = data;
      yield { ...event, type: event.type.toLowerCase().replace('_', '.') as EventType };
      cursor = event.cursor;
    }
    throw new ServiceError('The service has ended the subscription.', { code: 'UNAVAILABLE' });
  }
  try {
    for (;;) {
      try {
        yield* subscribe();
      } catch (thrown) {
        signal?.throwIfAborted();
        const error = refusalOf(thrown);
        if (error === undefined || !passing.includes(error.code)) throw error ?? thrown;
        await wait(Math.max((error.retryAfterSeconds ?? 0) * 1_000, backOffMs(refusals++)), signal);
      }
    }
  } finally {
    signal?.removeEventListener('abort', stop);
    void close();
  }
}

/** A client of graphql-ws that connects again whenever its connection is lost, or does not answer any more. */
async function connect({ url, credential }: Transport, signal: AbortSignal | undefined): Promise<SocketClient> {
  const { createClient } = await import('graphql-ws/client'); // its server would bring graphql into the page
  signal?.throwIfAborted();
  let failures = 0;
  let unanswered: ReturnType<typeof setTimeout> | undefined;
  const socket = createClient({
    url: `${url.replace(/^http/, 'ws')}/graphql`,
    connectionParams: async () => ({ authorization: await credential.authorization() }),
    keepAlive: askingMs,
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
    // It must not reject: graphql-ws would neither go on nor end.
    retryWait: () => wait(backOffMs(failures++), signal).catch(() => {}),
    on: {
      connected: () => {
        failures = 0;
      },
      ping: (received) => {
        if (received) return;
        unanswered = setTimeout(() => socket.terminate(), askingMs);
      },
      pong: () => clearTimeout(unanswered),
      closed: (event) => {
        clearTimeout(unanswered);
        // 4403: the token has expired, or was refused.
        if ((event as { code?: number }).code === 4403) credential.renew();
      },
    },
  });
  return socket;
}

/** What the service says when it refuses an operation, or closes the socket for good; undefined for anything else. */
function refusalOf(thrown: unknown): ServiceError | undefined {
  if (thrown instanceof ServiceError) return thrown;
  if (Array.isArray(thrown)) return errorOfGraphQL(thrown); // of an `error` message
  const { code, reason } = thrown as { code?: unknown; reason?: unknown };
  if (typeof code !== 'number' || typeof reason !== 'string') return undefined;
  return new ServiceError(reason || `The socket was closed with ${code}.`, {
    code: code === 4429 ? 'RATE_LIMITED' : 'INTERNAL',
  });
}

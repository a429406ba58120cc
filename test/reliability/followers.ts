import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { clientOf, type Json } from '../support/client.ts';
import { SseReader } from '../support/sse.ts';
import { socketClient } from '../support/subscribe.ts';
import { whatOf } from './audit.ts';
import { isCutOff, type RunningServers } from './running-servers.ts';

// Three ways to follow an account's log over everything that happens to servers: each resumes from the last cursor
// that it has got.

/** An event as a follower was given it. */
export interface Seen {
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  /** The id of what it tells of; null when that was erased. */
  readonly what: string | null;
}

/** What a follower looks for between two looks at the log that found nothing new. */
const pollMs = 20;

interface Options {
  readonly servers: RunningServers;
  readonly secret: string;
  /** The place to begin at. */
  readonly after: string;
  /** Whether servers may answer UNAVAILABLE, since their database is away at times. */
  readonly mayBeUnavailable?: boolean;
}

/** A server cannot read the log at the moment. */
class Unavailable extends Error {}

export abstract class Follower {
  readonly name: string;
  /** How often it was connected. */
  connections = 0;
  /** The last sequence that it was given: they begin at 1 and have no gaps. */
  last = 0;
  failure: unknown;
  protected readonly servers: RunningServers;
  protected readonly secret: string;
  protected after: string;
  protected isStopped = false;
  readonly #mayBeUnavailable: boolean;
  #seen: Seen[] = [];
  #following: Promise<void> = Promise.resolve();

  constructor(name: string, { servers, secret, after, mayBeUnavailable = false }: Options) {
    this.name = name;
    this.servers = servers;
    this.secret = secret;
    this.after = after;
    this.#mayBeUnavailable = mayBeUnavailable;
  }

  start(): this {
    this.#following = this.follow().catch((error: unknown) => {
      this.failure ??= error;
    });
    return this;
  }

  /** What it was given since this was asked the last time. */
  take(): readonly Seen[] {
    return this.#seen.splice(0);
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.end();
    await this.#following;
  }

  /** Whether to try again after an error. */
  protected isExpected(error: unknown): boolean {
    return isCutOff(error) || (this.#mayBeUnavailable && error instanceof Unavailable);
  }

  protected abstract follow(): Promise<void>;
  protected abstract end(): void;

  /** In order, no gap, no repeat. */
  protected given({ sequence, id, type: spelled, cursor, data }: Json): void {
    if (this.failure !== undefined) return;
    try {
      expect(sequence, `the next for ${this.name}`).toBe(this.last + 1);
    } catch (error) {
      this.failure = error;
      return;
    }
    const type = spelled.toLowerCase().replace('_', '.');
    this.#seen.push({ sequence, id, type, what: whatOf(type, data) });
    this.last = sequence;
    this.after = cursor;
  }
}

class SocketFollower extends Follower {
  #end = (): void => {};

  protected override async follow(): Promise<void> {
    while (!this.isStopped) {
      try {
        await this.#followOnce();
      } catch (error) {
        if (!this.isExpected(error)) throw error;
        await sleep(pollMs);
      }
    }
  }

  async #followOnce(): Promise<void> {
    const client = socketClient('', this.secret, {
      url: async () => `${(await this.servers.url()).replace('http', 'ws')}/graphql`,
      on: { connected: () => this.connections++ },
    });
    const followed = new Promise<void>((resolve, reject) => {
      const query = `subscription ($after: String) { events(after: $after) { id type sequence cursor
        ... on ConversationStartedEvent { conversation { id: conversationId } } ... on MessageReceivedEvent { message { id } }
        ... on ConversationClosedEvent { conversation { id: conversationId } } ... on MessageSentEvent { message { id } }
        ... on ConversationReopenedEvent { conversation { id: conversationId } }
        ... on ConversationUpdatedEvent { conversation { id: conversationId } }
        ... on ConversationReadEvent { conversationId }
        ... on ConversationDeletedEvent { conversationId } ... on LeadCapturedEvent { lead { id } } } }`;
      const place = (): string => this.after;
      const variables = {
        get after() {
          return place();
        },
      };
      const unsubscribe = client.subscribe<Json>(
        { query, variables },
        {
          next: ({ data, errors }) => {
            if (errors !== undefined) reject(errorOf(errors));
            else this.given({ ...data.events, data: data.events });
          },
          error: (error) => reject(error instanceof Error ? error : errorOf(error)),
          complete: resolve,
        },
      );
      this.#end = unsubscribe;
    });
    await followed.finally(() => client.dispose());
  }

  protected override end(): void {
    this.#end();
  }
}

class StreamFollower extends Follower {
  #reader: SseReader | undefined;

  protected override async follow(): Promise<void> {
    while (!this.isStopped) {
      const url = await this.servers.url();
      try {
        const headers = { authorization: `Bearer ${this.secret}`, 'last-event-id': this.after };
        this.#reader = await SseReader.open(`${url}/v1/events/stream`, headers, (event) => this.given(event));
        if (this.#reader.status === 503) throw new Unavailable();
        expect(this.#reader.status).toBe(200);
        this.connections++;
        if (this.isStopped) this.#reader.close();
        await this.#reader.over;
      } catch (error) {
        if (!this.isExpected(error)) throw error;
        await sleep(pollMs);
      }
    }
  }

  protected override end(): void {
    this.#reader?.close();
  }
}

class LogFollower extends Follower {
  protected override async follow(): Promise<void> {
    while (!this.isStopped) {
      const client = clientOf(await this.servers.url(), this.secret);
      try {
        const { status, body } = await client.rest('GET', `/events?limit=100&after=${this.after}`);
        if (status === 503) throw new Unavailable();
        expect({ status, code: body.code }).toEqual({ status: 200, code: undefined });
        for (const event of body.data) this.given(event);
        this.after = body.pagination.nextCursor;
        if (!body.pagination.hasMore) await sleep(pollMs);
      } catch (error) {
        if (!this.isExpected(error)) throw error;
        await sleep(pollMs);
      }
    }
  }

  protected override end(): void {}
}

/** What a subscription has ended with. */
function errorOf(errors: Json): Error {
  const [first] = [errors].flat();
  return first?.extensions?.code === 'UNAVAILABLE' ? new Unavailable() : new Error(JSON.stringify(errors));
}

/** One of each kind, from the beginning of the log on. */
export function follow(options: Options): readonly Follower[] {
  return [
    new SocketFollower('a graphql-ws subscription', options).start(),
    new StreamFollower('a stream', options).start(),
    new LogFollower('a reader of the log', options).start(),
  ];
}

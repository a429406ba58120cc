import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { commandLine } from '../cli/program.ts';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { until } from '../support/wait.ts';

const sendMessage = `mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id sequence } } }`;

/**
 * Makes an account in a database whose limit is far above what these tests send. So is what is reserved of it at once,
 * which reads can go on with.
 * @returns its key
 */
export async function makeBusyAccount(databasePath: string): Promise<string> {
  const { apiKey } = await commandLine(databasePath).jsonHere<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'busy', '--plan', 'business', '--requests-per-hour', '1000000'],
  );
  return apiKey.secret;
}

/** How each face has answered. */
interface Answers {
  done: number;
  refused: number;
}

/**
 * Clients that write one message after the other, through both faces, into a conversation each. They take any answer
 * but two for a fault: that it was done, and UNAVAILABLE as the contract has it.
 */
export class Writers {
  readonly rest: Answers = { done: 0, refused: 0 };
  readonly graphql: Answers = { done: 0, refused: 0 };
  /** The messages that were acknowledged, by their conversation. */
  readonly acknowledged = new Map<string, Map<string, { sequence: number; content: string }>>();
  readonly #client: Client;
  readonly #running: Promise<void>[] = [];
  readonly #faults: unknown[] = [];
  #stopped = false;
  #number = 0;

  /** @param length of what each writes, in characters */
  static async start(url: string, secret: string, count: number, length: number): Promise<Writers> {
    const writers = new Writers(clientOf(url, secret));
    for (let index = 0; index < count; index++) {
      const { status, body } = await writers.#client.rest('POST', '/conversations', { body: {} });
      expect(status).toBe(201);
      writers.acknowledged.set(body.id, new Map());
      const writing = index % 2 === 0 ? writers.#writeRest(body.id, length) : writers.#writeGraphQL(body.id, length);
      writers.#running.push(writing.catch((fault: unknown) => void writers.#faults.push(fault)));
    }
    return writers;
  }

  private constructor(client: Client) {
    this.#client = client;
  }

  get done(): number {
    return this.rest.done + this.graphql.done;
  }

  /** How often the face that was refused less was refused. */
  get refused(): number {
    return Math.min(this.rest.refused, this.graphql.refused);
  }

  /** Waits until something holds. @throws what any of them took for a fault */
  async until(holds: () => boolean): Promise<void> {
    await until(() => this.#faults.length > 0 || holds());
    if (this.#faults.length > 0) throw this.#faults[0];
  }

  /** @throws what any of them took for a fault */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
    if (this.#faults.length > 0) throw this.#faults[0];
  }

  #content(length: number): string {
    return `${++this.#number} `.padEnd(length, 'x');
  }

  async #writeRest(id: string, length: number): Promise<void> {
    while (!this.#stopped) {
      const content = this.#content(length);
      const answer = await this.#client.rest('POST', `/conversations/${id}/messages`, {
        body: { sender: 'visitor', content },
      });
      if (answer.status === 201) {
        this.#note(this.rest, id, answer.body, content);
        continue;
      }
      expectUnavailable(answer.status, answer.body, answer.headers);
      this.rest.refused++;
      await sleep(5);
    }
  }

  async #writeGraphQL(conversationId: string, length: number): Promise<void> {
    while (!this.#stopped) {
      const content = this.#content(length);
      const { status, headers, data, errors } = await this.#client.graphql(sendMessage, {
        input: { conversationId, sender: 'VISITOR', content },
      });
      if (errors === undefined) {
        this.#note(this.graphql, conversationId, data.sendMessage.message, content);
        continue;
      }
      const { code, retryAfterSeconds } = errors[0]?.extensions ?? {};
      expect({ code, retryAfterSeconds }).toEqual({ code: 'UNAVAILABLE', retryAfterSeconds: 1 });
      // The admission could not count the request, or the operation could not be done.
      if (status !== 200) expect([status, headers['retry-after']]).toEqual([503, '1']);
      this.graphql.refused++;
      await sleep(5);
    }
  }

  #note(face: Answers, conversationId: string, { id, sequence }: Json, content: string): void {
    face.done++;
    this.acknowledged.get(conversationId)?.set(id, { sequence, content });
  }
}

function expectUnavailable(status: number, body: Json, headers: Record<string, string>): void {
  expect({ status, code: body.code }).toEqual({ status: 503, code: 'UNAVAILABLE' });
  expect(headers['retry-after']).toBe('1');
}

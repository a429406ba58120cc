import { request } from 'undici';
import type { Json } from './client.ts';
import { serviceConformance } from './conformance.ts';
import { until } from './wait.ts';

interface Block {
  readonly id?: string;
  readonly event?: string;
  readonly data?: Json;
  readonly retry?: string;
}

/** What an EventSource would read, block by block. */
export class SseReader {
  readonly blocks: Block[] = [];
  status = 0;
  headers: Record<string, string> = {};
  body = '';
  ended = false;
  /** Whether it ended by being cut off. */
  failed = false;
  /** Resolves when it has ended. */
  over: Promise<void> = Promise.resolve();
  readonly #abort = new AbortController();
  readonly #isRest: boolean;
  readonly #onEvent: ((event: Json) => void) | undefined;
  /** What of an event was not as documented. */
  #fault: unknown;

  private constructor(url: string, onEvent: ((event: Json) => void) | undefined) {
    this.#isRest = new URL(url).pathname.startsWith('/v1/');
    this.#onEvent = onEvent;
  }

  /**
   * @param onEvent told of each event as it comes
   * @throws Error when it is a stream of REST, and not answered as openapi.json says
   */
  static async open(url: string, headers: Record<string, string>, onEvent?: (event: Json) => void): Promise<SseReader> {
    const reader = new SseReader(url, onEvent);
    const response = await request(url, {
      headers: { accept: 'text/event-stream', ...headers },
      signal: reader.#abort.signal,
    });
    reader.status = response.statusCode;
    reader.headers = response.headers as Record<string, string>;
    reader.over = reader
      .#read(response.body)
      .catch(() => {
        reader.failed = true;
      })
      .finally(() => {
        reader.ended = true;
      });
    if (reader.#isRest) await reader.#checkAnswer(url);
    return reader;
  }

  get events(): Json[] {
    return this.blocks.flatMap(({ data }) => (data === undefined ? [] : [data]));
  }

  /** The place that an EventSource would resume from. */
  get lastEventId(): string | undefined {
    return this.blocks.findLast(({ id }) => id !== undefined)?.id;
  }

  async until(holds: (reader: SseReader) => boolean): Promise<void> {
    await until(() => this.#fault !== undefined || holds(this));
    if (this.#fault !== undefined) throw this.#fault;
  }

  close(): void {
    this.#abort.abort();
  }

  /** Holds the beginning of a stream, or all of a problem, against openapi.json. */
  async #checkAnswer(url: string): Promise<void> {
    const { status, headers } = this;
    if (status !== 200) await this.over;
    if (this.failed) return;
    const { pathname, search } = new URL(url);
    const isProblem = headers['content-type'] === 'application/problem+json';
    const body = isProblem ? JSON.parse(this.body) : this.body;
    try {
      serviceConformance().check({ method: 'GET', path: pathname + search, status, headers, body });
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #checkEvent(event: Json): void {
    try {
      serviceConformance().checkEvent(event);
    } catch (error) {
      this.#fault ??= error;
    }
  }

  async #read(body: AsyncIterable<Buffer>): Promise<void> {
    let rest = '';
    const decoder = new TextDecoder();
    for await (const chunk of body) {
      const text = decoder.decode(chunk, { stream: true });
      this.body += text;
      const blocks = (rest + text).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const text of blocks) {
        const block = parse(text);
        if (this.#isRest && block.data !== undefined) this.#checkEvent(block.data);
        this.blocks.push(block);
        if (block.data !== undefined) this.#onEvent?.(block.data);
      }
    }
  }
}

function parse(block: string): Block {
  const fields = Object.fromEntries(
    block.split('\n').map((line) => {
      const colon = line.indexOf(': ');
      return [line.slice(0, colon), line.slice(colon + 2)];
    }),
  );
  if (fields['data'] === undefined) return fields;
  return { ...fields, data: JSON.parse(fields['data']) };
}

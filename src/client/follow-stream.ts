import { queryOf, type Transport } from './client.ts';
import { errorOfResponse, isResult, mayPassForFollower, ServiceError } from './errors.ts';
import type { Event, EventType } from './types.ts';
import { backOffMs, wait, whenOnline, within } from './waiting.ts';

export interface FollowOptions {
  /** Start after this cursor, of an event or an `eventCursor`; without it, now. */
  readonly after?: string | undefined;
  readonly types?: readonly EventType[];
  readonly conversationId?: string;
  readonly signal?: AbortSignal;
}

/** The service writes something every 15 s. After this long without, the connection is taken for dead. */
const silentMs = 40_000;

/** Follows the log over Server-Sent Events, and goes on after the last event whatever happens to the connection. */
export async function* followStream(
  { url, credential, fetch: send }: Transport,
  { after, types, conversationId, signal }: FollowOptions,
): AsyncGenerator<Event, void> {
  let cursor = after;
  for (let failures = 0, refused = 0; ; ) {
    signal?.throwIfAborted();
    const silence = new AbortController();
    const abort = (): void => silence.abort(signal?.reason);
    signal?.addEventListener('abort', abort);
    whenOnline(() => {
      failures = 0;
      abort();
    }, silence.signal);
    let leastSeconds: number | undefined;
    try {
      const query = queryOf({ after: cursor, types, conversationId });
      let authorization = '';
      const answer = await within(silentMs, silence.signal, async () => {
        authorization = await credential.authorization();
        const headers = { Accept: 'text/event-stream', Authorization: authorization };
        const response = await send(`${url}/v1/events/stream${query}`, { headers, signal: silence.signal });
        return (isResult(response, 'event-stream') && response.body) || (await errorOfResponse(response));
      });
      if (answer instanceof ServiceError) {
        const isExpired = answer.code === 'UNAUTHENTICATED' && credential.isRenewable && refused++ === 0;
        if (!isExpired) throw answer;
        credential.renew(authorization);
      } else {
        refused = 0;
        for await (const { id, data } of blocksOf(answer, silence)) {
          failures = 0;
          if (data !== undefined) yield JSON.parse(data);
          cursor = id ?? cursor;
        }
      }
    } catch (error) {
      if (signal?.aborted || !mayPassForFollower(error)) throw error;
      leastSeconds = (error as Partial<ServiceError> | undefined)?.retryAfterSeconds;
    } finally {
      signal?.removeEventListener('abort', abort);
      silence.abort();
    }
    if (await wait(backOffMs(failures++, leastSeconds), signal)) failures = 0;
  }
}

interface Block {
  readonly id: string | undefined;
  readonly data: string | undefined;
}

/** The blocks of a stream of Server-Sent Events. It is aborted when nothing comes for long. */
async function* blocksOf(body: ReadableStream<Uint8Array>, silence: AbortController): AsyncGenerator<Block, void> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let rest = '';
  try {
    for (;;) {
      const timer = setTimeout(() => silence.abort(), silentMs);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const blocks = (rest + value).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) yield { id: fieldOf(block, 'id'), data: fieldOf(block, 'data') };
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

function fieldOf(block: string, name: string): string | undefined {
  const line = block.split('\n').find((each) => each.startsWith(`${name}: `));
  return line?.slice(name.length + 2);
}

// A page that follows the events with fetch alone, across restarts of the service. It prints what it has seen.

const stream = `${process.env['BASE_URL']}/v1/events/stream?types=message.received,conversation.closed`;
const authorization = `Bearer ${process.env['API_KEY']}`;
const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1_000));

interface Block {
  readonly id?: string;
  readonly event?: string;
  readonly data?: string;
}

/** The blocks of a stream, each with its fields. */
async function* blocksOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<Block> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader(); // Safari has no loop over it before version 26
  try {
    for (let text = ''; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (text + value).split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) yield Object.fromEntries(block.split('\n').map((line) => line.split(/: (.*)/, 2)));
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** All events after a cursor, for as long as they are asked for. */
async function* follow(after: string): AsyncGenerator<{ type?: string; event: { data: Record<string, unknown> } }> {
  let last = after;
  for (;;) {
    try {
      const response = await fetch(stream, { headers: { authorization, 'Last-Event-ID': last } });
      if (response.ok && response.body) {
        for await (const { id, event: type, data } of blocksOf(response.body)) {
          if (data !== undefined) yield { type, event: JSON.parse(data) };
          last = id ?? last; // there may be no event with it: those that are not asked for are passed over
        }
      } else if (![429, 503].includes(response.status)) {
        throw new Error(await response.text());
      } else {
        await pause(Number(response.headers.get('Retry-After')));
      }
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the connection was lost, or there is none yet
    }
    await pause(0.05);
  }
}

const received: string[] = [];
console.log('opened');
for await (const { type, event } of follow(process.env['CURSOR'] ?? '')) {
  if (type === 'conversation.closed') break;
  const { content } = event.data['message'] as { content: string };
  received.push(content);
  console.log(`received ${content}`);
}

const limited = await fetch(stream, { headers: { authorization: `Bearer ${process.env['SPENT_KEY']}` } });
const { code } = await limited.json();
console.log(JSON.stringify({ received, limited: [limited.status, code, limited.headers.has('Retry-After')] }));

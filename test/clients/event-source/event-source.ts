// A page that follows the events with the package eventsource, across restarts of the service. It prints what it has seen.
import { EventSource } from 'eventsource';

const url = process.env['BASE_URL'] ?? '';
const types = ['message.received', 'conversation.closed'];
const resumedAfter: (string | null)[] = [];

/** An EventSource whose requests have a credential, which that of a browser cannot give them. */
const open = (credential: string | undefined, after: string): EventSource =>
  new EventSource(`${url}/v1/events/stream?types=${types}&after=${after}`, {
    fetch(input, init) {
      resumedAfter.push(new Headers(init.headers).get('Last-Event-ID'));
      return fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${credential}` } });
    },
  });

const cursors: string[] = [];
const received: string[] = [];
const over = Promise.withResolvers<void>();

function follow(after: string): void {
  let last = after;
  const source = open(process.env['API_KEY'], after);
  // Events have names, so `message` never happens.
  source.addEventListener('message.received', ({ data, lastEventId }) => {
    last = lastEventId;
    cursors.push(lastEventId);
    const { content } = JSON.parse(data).data.message;
    received.push(content);
    console.log(`received ${content}`);
  });
  source.addEventListener('conversation.closed', () => {
    source.close();
    over.resolve();
  });
  // It connects again by itself, but not after an answer such as 429 or 503.
  source.addEventListener('error', () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(last), 1_000);
  });
}

// Its wait before it connects again does not keep a program alive that has nothing else to do.
const alive = setInterval(() => {}, 60_000);
follow(process.env['CURSOR'] ?? '');
console.log('opened');
await over.promise;
clearInterval(alive);

const attempts = resumedAfter.length;
const limited = await new Promise((resolve) => {
  const source = open(process.env['SPENT_KEY'], '');
  source.addEventListener('error', ({ code }) => resolve([code, source.readyState === EventSource.CLOSED]));
});

console.log(JSON.stringify({ received, resumed: cursors.includes(resumedAfter[attempts - 1] ?? ''), limited }));

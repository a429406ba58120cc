import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { fail, frameOf, isPing, openSocket, pong } from './wire.mjs';

// Many subscribers of one stream of events, in a process of its own: it opens their sockets by hand and only
// counts frames, so that it is not what is measured. Then it makes events, and waits until all have all.

const { urls, subscribers, messages, publish, events, publishers } = JSON.parse(readFileSync(0, 'utf8'));
const patienceMs = 120_000;
const { hostname, port } = new URL(urls[0]);
const agent = new Agent({ keepAlive: true, maxSockets: publishers });

setTimeout(() => fail(new Error('It takes too long')), patienceMs);

/** Looks at the frames in what a server sends: calls back for each of text, and answers pings. */
function frameReader(socket, onFrame) {
  let rest = Buffer.alloc(0);
  let skip = 0;
  return (chunk) => {
    let data = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    rest = Buffer.alloc(0);
    for (;;) {
      if (skip >= data.length) {
        skip -= data.length;
        return;
      }
      data = data.subarray(skip);
      skip = 0;
      if (data.length < 2 || ((data[1] & 0x7f) === 126 && data.length < 4)) {
        rest = data;
        return;
      }
      const short = data[1] & 0x7f;
      const length = short < 126 ? short : data.readUInt16BE(2);
      if ((data[0] & 0x0f) === 1) onFrame();
      else if (isPing(data[0])) socket.write(pong);
      skip = (short < 126 ? 2 : 4) + length;
    }
  };
}

/** Opens a socket and says on it what subscribes it. */
function subscribe(url, onFrame) {
  return new Promise((resolve) => {
    const socket = openSocket(url);
    let head = '';
    let read;
    socket.on('data', (chunk) => {
      if (read !== undefined) {
        read(chunk);
        return;
      }
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      if (!head.startsWith('HTTP/1.1 101')) fail(new Error(head));
      const [first, ...others] = messages;
      const say = (message) => socket.write(frameOf(message));
      // What follows may be said only when the first is acknowledged.
      read = frameReader(socket, () => {
        others.splice(0).forEach(say);
        onFrame();
      });
      if (first !== undefined) say(first);
      resolve(socket);
    });
  });
}

function post(index) {
  return new Promise((resolve, reject) => {
    const { path, headers, body } = publish[index % publish.length];
    const posted = request({ agent, hostname, port, path, method: 'POST', headers }, (response) => {
      response
        .resume()
        .on('end', () => (response.statusCode < 300 ? resolve() : reject(new Error(`${response.statusCode}`))));
    });
    posted.on('error', reject).end(body);
  });
}

let received = 0;
let awaited = Number.POSITIVE_INFINITY;
let done = () => {};
const onFrame = () => {
  if (++received >= awaited) done();
};

/** Makes so many events and waits until everybody has them. */
async function run(count) {
  const startedMs = performance.now();
  const arrived = new Promise((resolve) => {
    awaited = received + count * subscribers;
    done = resolve;
  });
  let next = 0;
  await Promise.all(
    Array.from({ length: publishers }, async () => {
      while (next < count) await post(next++);
    }),
  );
  await arrived;
  return (performance.now() - startedMs) / 1_000;
}

const expectedBefore = messages.length > 0 ? subscribers : 0; // the acknowledgement
const sockets = [];
for (let index = 0; index < subscribers; index++) sockets.push(await subscribe(urls[index % urls.length], onFrame));
while (received < expectedBefore) await new Promise((resolve) => setTimeout(resolve, 20));
await new Promise((resolve) => setTimeout(resolve, 300)); // until the last one has subscribed
await run(Math.ceil(events / 10)); // until it is compiled
const seconds = await run(events);
console.log(JSON.stringify({ eventsTimesSubscribersPerSecond: (events * subscribers) / seconds }));
process.exit(0);

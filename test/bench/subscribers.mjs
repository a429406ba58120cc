import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';

// Many subscribers of one stream of events, in a process of its own: it opens their sockets by hand and only
// counts frames, so that it is not what is measured. Then it makes events, and waits until all have all.

const { url, subscribers, messages, publish, events, publishers } = JSON.parse(readFileSync(0, 'utf8'));
const patienceMs = 120_000;
const { hostname, port } = new URL(url);
const agent = new Agent({ keepAlive: true, maxSockets: publishers });

function fail(error) {
  console.error(error);
  process.exit(1);
}

setTimeout(() => fail(new Error('It takes too long')), patienceMs);

/** A text frame of a client: masked, as it has to be, with zeros. */
function frameOf(text) {
  const payload = Buffer.from(text);
  const long = payload.length > 125;
  const header = Buffer.alloc(long ? 8 : 6);
  header[0] = 0x81;
  header[1] = 0x80 | (long ? 126 : payload.length);
  if (long) header.writeUInt16BE(payload.length, 2);
  return Buffer.concat([header, payload]);
}

/** Counts the frames in what a server sends, and calls back for each of text. */
function frameCounter(onFrame) {
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
      if (data.length < 4) {
        rest = data;
        return;
      }
      const short = data[1] & 0x7f;
      const length = short < 126 ? short : data.readUInt16BE(2);
      if ((data[0] & 0x0f) === 1) onFrame();
      skip = (short < 126 ? 2 : 4) + length;
    }
  };
}

/** Opens a socket and says on it what subscribes it. */
function subscribe(onFrame) {
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    let head = '';
    socket.on('error', fail);
    socket.on('close', () => fail(new Error('A subscriber was cut off')));
    socket.write(
      `GET ${new URL(url).pathname} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n`,
    );
    let count;
    socket.on('data', (chunk) => {
      if (count !== undefined) {
        count(chunk);
        return;
      }
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      if (!head.startsWith('HTTP/1.1 101')) fail(new Error(head));
      count = frameCounter(onFrame);
      for (const message of messages) socket.write(frameOf(message));
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
for (let index = 0; index < subscribers; index++) sockets.push(await subscribe(onFrame));
while (received < expectedBefore) await new Promise((resolve) => setTimeout(resolve, 20));
await new Promise((resolve) => setTimeout(resolve, 300)); // until the last one has subscribed
await run(Math.ceil(events / 10)); // until it is compiled
const seconds = await run(events);
console.log(JSON.stringify({ eventsTimesSubscribersPerSecond: (events * subscribers) / seconds }));
process.exit(0);

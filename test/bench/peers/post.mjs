import { request } from 'undici';

// What sending costs at least: a loop of undici that posts so many bodies, 64 at a time, and looks at nothing.

const { BENCH_RECEIVER: url, BENCH_AWAITED: awaited, BENCH_BODY: body } = process.env;
let left = Number(awaited);

async function post() {
  while (left-- > 0) {
    const { body: answer } = await request(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    await answer.dump();
  }
}

console.log('listening'); // it is ready
await Promise.all(Array.from({ length: 64 }, post));
setInterval(() => {}, 1_000); // until it is ended, as a server is

import { createServer } from 'node:http';
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

createServer().listen(Number(process.env.PORT), '127.0.0.1'); // it is ready, and stays until it is ended
await Promise.all(Array.from({ length: 64 }, post));

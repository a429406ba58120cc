import { parentPort, workerData } from 'node:worker_threads';
import { guardedConnector } from './connector.ts';
import type { Letter, Outcome } from './letter.ts';
import { Post } from './post.ts';
import type { ThreadOptions } from './post-office.ts';
import { dnsLookup } from './resolve.ts';

// A thread that sends letters: what takes the time of a processor is signing them, TLS and HTTP.

/** Letters to send, each with the number that its outcome is known by; or nothing is to be waited for any more. */
export type Request = readonly (readonly [number: number, letter: Letter])[] | 'give up';
export type Reply = readonly (readonly [number: number, outcome: Outcome])[];

const { policy, connectMs, totalMs, maxResponseBytes, nameServers } = workerData as ThreadOptions;
const lookup = nameServers && dnsLookup(nameServers);
const post = new Post(guardedConnector(policy, connectMs, lookup), { totalMs, maxResponseBytes });

/** What has ended in this turn of the event loop: telling it together costs little more than telling one. */
let ended: [number, Outcome][] = [];

function tell(): void {
  parentPort?.postMessage(ended satisfies Reply);
  ended = [];
}

parentPort?.on('message', (request: Request) => {
  if (request === 'give up') {
    post.giveUp();
    return;
  }
  for (const [number, letter] of request) {
    post.send(letter, (outcome) => {
      if (ended.push([number, outcome]) === 1) setImmediate(tell);
    });
  }
});

import { parentPort, workerData } from 'node:worker_threads';
import { guardedConnector } from './connector.ts';
import { dnsLookup } from './resolve.ts';
import type { ThreadOptions } from './threaded-webhook-client.ts';
import { WebhookClient } from './webhook-client.ts';
import type { Outcome, WebhookRequest } from './webhook-request.ts';

// The program of the thread that sends webhooks: signing, TLS and HTTP are what takes CPU time.

/** Requests to send, each with the number that its outcome is reported under, or the order to stop waiting. */
export type ToThread = readonly (readonly [number: number, request: WebhookRequest])[] | 'give up';
export type FromThread = readonly (readonly [number: number, outcome: Outcome])[];

const { policy, connectMs, totalMs, maxResponseBytes, nameServers } = workerData as ThreadOptions;
const lookup = nameServers && dnsLookup(nameServers);
const client = new WebhookClient(guardedConnector(policy, connectMs, lookup), { totalMs, maxResponseBytes });

/** Outcomes of this turn of the event loop: a single message for all of them costs little more than a message for one. */
let outcomes: [number, Outcome][] = [];

function report(): void {
  parentPort?.postMessage(outcomes satisfies FromThread);
  outcomes = [];
}

parentPort?.on('message', (message: ToThread) => {
  if (message === 'give up') {
    client.giveUp();
    return;
  }
  for (const [number, request] of message) {
    client.send(request, (outcome) => {
      if (outcomes.push([number, outcome]) === 1) setImmediate(report);
    });
  }
});

import { parentPort, workerData } from 'node:worker_threads';
import { WebhookClient } from './client.ts';
import { dnsLookup, guardedConnector } from './connector.ts';
import type { Outcome, ThreadOptions, WebhookRequest } from './threaded-client.ts';

// The program of the thread that sends webhooks: signing, TLS and HTTP are what takes CPU time.

/** Requests to send, each with the number that its outcome is reported under, or the order to stop waiting. */
export type ToThread = readonly (readonly [number: number, request: WebhookRequest])[] | 'give up';
export type FromThread = readonly (readonly [number: number, outcome: Outcome])[];

const { policy, connectMs, totalMs, maxResponseBytes, nameServers } = workerData as ThreadOptions;
const lookup = nameServers && dnsLookup(nameServers);
const client = new WebhookClient(guardedConnector(policy, connectMs, lookup), { totalMs, maxResponseBytes });

/**
 * How many requests are sent before the event loop turns. If all were, their responses would be read together, too, and
 * this thread, the receivers and the main thread would wait for each other by turns.
 */
const sentAtOnce = 8;
const unsent: (readonly [number: number, request: WebhookRequest])[] = [];
/** Outcomes of this turn of the event loop: a single message for all of them costs little more than a message for one. */
let outcomes: [number, Outcome][] = [];

parentPort?.on('message', (message: ToThread) => {
  if (message === 'give up') {
    client.giveUp();
    return;
  }
  const isSending = unsent.length > 0;
  unsent.push(...message);
  if (!isSending) sendSome();
});

function sendSome(): void {
  for (const [number, request] of unsent.splice(0, sentAtOnce)) {
    client.send(request, (outcome) => {
      if (outcomes.push([number, outcome]) === 1) setImmediate(report);
    });
  }
  if (unsent.length > 0) setImmediate(sendSome);
}

function report(): void {
  parentPort?.postMessage(outcomes satisfies FromThread);
  outcomes = [];
}

import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Client } from '../support/client.ts';
import type { Writers } from './writers.ts';

/** Everything that can be read from the database is answered, and the probes say so. */
export async function expectReads(url: string, client: Client): Promise<void> {
  for (const path of ['/healthz', '/readyz', '/metrics']) expect((await fetch(url + path)).status, path).toBe(200);
  const list = await client.rest('GET', '/conversations');
  expect(list.status).toBe(200);
  expect(list.body.data.length).toBeGreaterThan(0);
  for (const { id } of list.body.data) expect((await client.rest('GET', `/conversations/${id}`)).status).toBe(200);
  expect((await client.graphql('{ conversations { nodes { id messages(last: 1) { nodes { id } } } } }')).errors).toBe(
    undefined,
  );
  expect((await client.rest('GET', '/events?limit=1')).status).toBe(200);
}

/** All acknowledged messages are stored, and no others: what was refused has not happened. */
export async function expectAcknowledgedWrites(client: Client, writers: Writers): Promise<void> {
  expect(writers.done).toBeGreaterThan(0);
  for (const [id, acknowledged] of writers.acknowledged) {
    const { messages, messageCount } = (await client.rest('GET', `/conversations/${id}`)).body;
    const found = messages.map(({ id, sequence, content }: Record<string, unknown>) => [id, { sequence, content }]);
    expect(messageCount).toBe(acknowledged.size);
    expect(new Map(found)).toEqual(acknowledged);
  }
}

/**
 * Requests are reserved on the disk in blocks that end with the minute, and a read needs one. So where the disk cannot be
 * written, reads go on until the minute ends: a test of them must not begin right before.
 */
export async function avoidEndOfMinute(client: Client, neededMs: number): Promise<void> {
  const leftMs = 60_000 - (Date.now() % 60_000);
  if (leftMs < neededMs) await sleep(leftMs + 50);
  expect((await client.rest('GET', '/account')).status).toBe(200); // reserves a block
}

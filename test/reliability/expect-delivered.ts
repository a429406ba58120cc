import { expect } from 'vitest';
import type { Json } from '../support/client.ts';
import type { ReceivedWebhook } from '../support/receiver.ts';

/** Every event of a log was delivered, as the log has it, and nothing else was. */
export function expectDelivered(log: readonly Json[], deliveries: readonly ReceivedWebhook[]): void {
  expect(log.length).toBeGreaterThan(0);
  const delivered = new Set(deliveries.map(({ event }) => event.id));
  expect(log.filter(({ id }) => !delivered.has(id))).toEqual([]);
  const byId = new Map(log.map((event) => [event.id, event]));
  for (const { event } of deliveries) {
    const logged = byId.get(event.id);
    // What was sent before it was erased told more.
    if (logged?.data.erased === true) expect(event).toMatchObject({ ...logged, data: expect.anything() });
    else expect(event).toEqual(logged);
  }
}

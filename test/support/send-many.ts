import { expect } from 'vitest';
import type { Client } from './client.ts';

/** Sends messages of the visitor that say their numbers, some with each request. */
export async function sendMany(
  client: Pick<Client, 'graphql'>,
  id: string,
  first: number,
  last: number,
): Promise<void> {
  const sending = (number: number) =>
    `m${number}: sendMessage(input: { conversationId: $id, content: "${number}", sender: VISITOR }) { eventCursor }`;
  for (let from = first; from <= last; from += 40) {
    const numbers = Array.from({ length: Math.min(40, last - from + 1) }, (_, index) => from + index);
    const { errors } = await client.graphql(`mutation ($id: ID!) { ${numbers.map(sending).join(' ')} }`, { id });
    expect(errors).toBeUndefined();
  }
}

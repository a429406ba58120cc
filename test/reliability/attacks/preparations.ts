import { type Customer, times } from './attacker.ts';

// What several attacks are prepared by.

export async function oneConversation(customer: Customer): Promise<Record<string, string>> {
  return { conversation: await customer.conversation(100) };
}

export async function hundredEvents(customer: Customer): Promise<Record<string, string>> {
  const { eventCursor } = await customer.graphql('{ eventCursor }');
  return { after: eventCursor, ...(await oneConversation(customer)) };
}

/** A hundred conversations with a hundred messages each, or a tenth of them. */
export async function manyConversations(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  await Promise.all(
    times(10, async () => {
      for (let index = 0; index < (isLong ? 10 : 1); index++) await customer.conversation(100);
    }),
  );
  return {};
}

const conditionNames = ['a', 'b', 'c', 'd', 'e'];

/** Fields with conditions, whose variables have 32 combinations: each may be compiled apart. */
export const conditions = {
  declared: conditionNames.map((name) => `$${name}: Boolean!`).join(' '),
  fields: conditionNames.map((name) => `${name}: __typename @skip(if: $${name})`).join(' '),
  variables: (index: number): Record<string, boolean> =>
    Object.fromEntries(conditionNames.map((name, bit) => [name, (index & (1 << bit)) !== 0])),
};

import { type Customer, momentMs, mutationBytes, nth, send, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { Outcomes } from './outcomes.ts';
import { followLog } from './stream-attacks.ts';
import { leave, settled, subscribe } from './subscriptions.ts';
import type { Attack } from './table.ts';

// Attacks by tokens for pages: made in masses, or each with as many connections as it may have.

const scopes = ['conversations:read', 'events:read'];

/** Tokens of so many visitors, each of whom has a conversation. */
async function pagesOfVisitors(customer: Customer, isLong: boolean): Promise<Record<string, string>> {
  const pages = times(isLong ? 25 : 4, async (index) => {
    const visitor = { id: `visitor-${index}` };
    const { token } = await customer.rest('POST', '/v1/tokens', { scopes, visitor, expiresInSeconds: 3_600 });
    const { id } = await customer.rest('POST', '/v1/conversations', { visitor });
    return { token, id };
  });
  const all = await Promise.all(pages);
  return {
    tokens: all.map(({ token }) => token).join(' '),
    conversations: all.map(({ id }) => id).join(' '),
  };
}

/** For each token ten sockets with subscriptions and ten streams, and one of each beyond; then messages to all. */
async function holdAll(target: Target): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const tokens = (target.fixture['tokens'] ?? '').split(' ');
  const conversations = (target.fixture['conversations'] ?? '').split(' ');
  const open = await Promise.all(
    tokens.map(async (secret) => {
      const page = { ...target, secret };
      const field = 'conversationChanged(AFTER) { id cursor }';
      const sockets = await Promise.all(times(11, () => subscribe(page, 10, field, { by: 'alias', outcomes })));
      return { sockets, endStreams: await followLog(page, 11, { outcomes }) };
    }),
  );
  outcomes.addAll(
    await send(target, { connections: 8, requests: conversations.length * (target.isLong ? 20 : 2) }, (index) => {
      const path = `/v1/conversations/${nth(conversations, index)}/messages`;
      return requestBytes('POST', path, { ...target, body: { content: 'Hello?', sender: 'visitor' } });
    }),
  );
  await settled(outcomes, target.isLong ? 2_000 : 200, 20_000);
  for (const { endStreams } of open) endStreams();
  await leave(open.flatMap(({ sockets }) => sockets));
  return outcomes;
}

export const tokenAttacks: Attack[] = [
  {
    name: 'tokens made in masses, each for another visitor, and used once',
    limits: 'raised',
    isShort: true,
    attack: (target) => {
      const tokenFor = (id: string): object => ({ scopes, visitor: { id } });
      return send(target, { connections: 16, forMs: target.isLong ? 5_000 : momentMs }, (index, before) => {
        const token = typeof before === 'object' && /"token":"([^"]+)"/.exec(before.start)?.[1];
        if (token) return requestBytes('GET', '/v1/conversations', { secret: token });
        if (index % 16 > 0) {
          return requestBytes('POST', '/v1/tokens', { ...target, body: tokenFor(`visitor-${index}`) });
        }
        const inputs = times(100, (each) => ({ ...tokenFor(`visitor-${index}-${each}`), scopes: ['EVENTS_READ'] }));
        return mutationBytes(target, 'createToken', inputs);
      });
    },
  },
  {
    name: 'tokens that each hold as many sockets and streams as they may',
    limits: 'raised',
    prepare: pagesOfVisitors,
    attack: holdAll,
  },
];

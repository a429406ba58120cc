import { expect, test } from 'vitest';
import type { Caller } from '../../src/domain/caller.ts';
import { LogEvent } from '../../src/domain/events.ts';
import { sampleAccount, sampleConversation, sampleEvent, storedEvent } from '../support/samples.ts';

const account = sampleAccount();
const key: Caller = { account, keyId: 'key', credential: 'key', scopes: new Set(['events:read']) };

function loggedEvent(metadata: object): { event: LogEvent; bound: () => Caller } {
  const conversation = sampleConversation({
    metadata: { ...metadata },
    externalId: 'order-1',
    assignee: { id: 'agent-3', name: 'Grace' },
    tags: ['vip'],
  });
  const event = new LogEvent(account.id, '5e0c1a7f', storedEvent(sampleEvent(conversation), 1));
  return { event, bound: () => ({ ...key, credential: 'token', conversationId: conversation.id }) };
}

test.each([
  { what: 'with metadata', metadata: { note: 'secret' } },
  { what: 'without metadata', metadata: {} },
])('an event $what is made once for all who are bound, as it is for all others', ({ metadata }) => {
  const { event, bound } = loggedEvent(metadata);
  const cursors = { show: (cursor: string) => `sealed ${cursor}` };
  const view = event.viewFor(bound(), cursors) as LogEvent;
  expect(event.viewFor(bound(), cursors)).toBe(view);
  expect(event.viewFor(key, cursors)).toBe(event);
  expect(event.data.conversation).toMatchObject({ metadata, externalId: 'order-1' });
  const { conversation, ...data } = event.data;
  expect(JSON.parse(view.json)).toEqual({
    ...JSON.parse(event.json),
    sequence: null,
    cursor: `sealed ${event.cursor}`,
    data: {
      ...data,
      conversation: {
        ...conversation,
        metadata: {},
        externalId: null,
        assignee: { id: null, name: 'Grace' },
        tags: [],
      },
    },
  });
  expect([view.position, view.sequence, event.sequence]).toEqual([1, null, 1]);
});

import { expect, test } from 'vitest';
import type { Caller } from '../../src/domain/caller.ts';
import { LogEvent } from '../../src/domain/events.ts';
import { sampleAccount, sampleConversation, sampleEvent, storedEvent } from '../support/samples.ts';

const account = sampleAccount();
const key: Caller = { account, keyId: 'key', credential: 'key', scopes: new Set(['events:read']) };

function loggedEvent(metadata: object): { event: LogEvent; bound: () => Caller } {
  const conversation = sampleConversation({ metadata: { ...metadata } });
  const event = new LogEvent(account.id, '5e0c1a7f', storedEvent(sampleEvent(conversation), 1));
  return { event, bound: () => ({ ...key, credential: 'token', conversationId: conversation.id }) };
}

test.each([
  { what: 'with metadata', metadata: { note: 'secret' } },
  { what: 'without metadata', metadata: {} },
])('an event $what is made once for all who are bound, as it is for all others', ({ metadata }) => {
  const { event, bound } = loggedEvent(metadata);
  const view = event.viewFor(bound());
  expect(event.viewFor(bound())).toBe(view);
  expect(event.viewFor(key)).toBe(event);
  expect(event.data.conversation?.metadata).toEqual(metadata);
  expect(JSON.parse(view.json)).toEqual(JSON.parse(event.json.replace(JSON.stringify(metadata), '{}')));
});

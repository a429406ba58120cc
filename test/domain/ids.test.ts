import { expect, test } from 'vitest';
import { getConversation } from '../../src/domain/conversations.ts';
import { exampleId } from '../../src/domain/ids.ts';
import { captureLead } from '../../src/domain/leads.ts';

test('of a text that has not the form of an id nothing is carried on, however long it is', () => {
  const id = exampleId('conversation');
  expect(getConversation.parse({ id })).toEqual({ id });
  for (const text of ['', 'x', 'x'.repeat(1_000_000), `${id} `, id.toUpperCase(), exampleId('message')]) {
    expect(getConversation.parse({ id: text })).toEqual({ id: '' });
  }
  expect(captureLead.parse({ email: 'ada@example.com', conversationId: 'x' })).toMatchObject({ conversationId: '' });
  expect(captureLead.parse({ email: 'ada@example.com', conversationId: null }).conversationId).toBeNull();
});

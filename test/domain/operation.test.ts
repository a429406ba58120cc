import { expect, test } from 'vitest';
import { createWebhook } from '../../src/domain/webhooks.ts';

test('an address is not taken where nothing says to which ones webhooks may be sent', () => {
  const given = { url: 'https://example.com/hooks', events: ['conversation.started'] };
  expect(() => createWebhook.parse(given)).toThrow('depends on the configuration');
});

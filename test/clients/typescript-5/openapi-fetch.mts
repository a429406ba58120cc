// A client of the service as its user would write it, against the types that were made from openapi.json.
// It prints what it has seen; what it calls and reads is checked by tsc before it runs.
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.ts';

type Event = components['schemas']['Event'];

const client = createClient<paths>({
  baseUrl: process.env['BASE_URL'] ?? '',
  headers: { Authorization: `Bearer ${process.env['API_KEY']}` },
  // openapi-fetch does not read from the document that lists have commas.
  querySerializer: { array: { style: 'form', explode: false } },
});

function must<T>({ data, error }: { data?: T; error?: { code: string; detail: string } }): T {
  if (data === undefined) throw new Error(`${error?.code}: ${error?.detail}`);
  return data;
}

const created = must(
  await client.POST('/v1/conversations', {
    body: {
      subject: 'Parcel 1042',
      visitor: { name: 'Ada' },
      metadata: { orderId: 1042, express: true },
      message: { sender: 'visitor', content: 'Where is my parcel?' },
    },
  }),
);
const path = { conversationId: created.id };

const sent = must(
  await client.POST('/v1/conversations/{conversationId}/messages', {
    params: { path },
    body: { sender: 'agent', content: 'It will be with you tomorrow.', author: { name: 'Grace' } },
  }),
);

const messages = must(
  await client.GET('/v1/conversations/{conversationId}/messages', { params: { path, query: { limit: 1, offset: 1 } } }),
);

const active = must(
  await client.GET('/v1/conversations', { params: { query: { status: ['active'], sort: '-lastActivityAt' } } }),
);

const closed = must(
  await client.PATCH('/v1/conversations/{id}', { params: { path: { id: created.id } }, body: { status: 'closed' } }),
);

const whole = must(await client.GET('/v1/conversations/{id}', { params: { path: { id: created.id } } }));

const lead = must(await client.POST('/v1/leads', { body: { conversationId: created.id, email: 'ada@example.com' } }));

/** What an event is about: narrowed by its type, and by whether it was erased. */
function about(event: Event): string {
  if ('erased' in event.data) return 'erased';
  switch (event.type) {
    case 'conversation.started':
    case 'conversation.closed':
    case 'conversation.reopened':
      return event.data.conversation.status;
    case 'message.received':
    case 'message.sent':
      return event.data.message.content;
    case 'lead.captured':
      return event.data.lead.email ?? '';
    case 'conversation.updated':
      return Object.keys(event.data.changes).join(', ');
    case 'conversation.read':
      return event.data.readPosition.reader;
    case 'conversation.deleted':
      return event.data.conversationId;
  }
}

const types = ['message.received', 'conversation.closed', 'lead.captured'] as const;
const events = must(await client.GET('/v1/events', { params: { query: { types: [...types] } } }));

const refused = await client.POST('/v1/conversations/{conversationId}/messages', {
  params: { path },
  body: { sender: 'agent', content: 'One more thing.' },
});
const missing = await client.GET('/v1/leads/{id}', { params: { path: { id: 'lead_none' } } });

console.log(
  JSON.stringify({
    visitor: created.visitor?.name,
    sequence: sent.sequence,
    listed: messages.data.map(({ content }) => content),
    total: active.pagination.total,
    closedAt: closed.closedAt !== null,
    senders: whole.messages?.map(({ sender }) => sender),
    lead: lead.email,
    events: events.data.map(about),
    refused: refused.error?.code === 'CONVERSATION_CLOSED' && refused.error.title,
    missing: missing.error?.code,
    left: Number(missing.response.headers.get('X-RateLimit-Remaining')) > 0,
  }),
);

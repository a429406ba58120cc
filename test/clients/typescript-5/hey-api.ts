// A program with the client that hey-api makes of openapi.json. It prints what it has seen.
import {
  createConversation,
  type Event,
  listConversations,
  sendMessage,
  streamEvents,
  updateConversation,
} from './generated/hey-api';
import { createClient } from './generated/hey-api/client';

const baseUrl = process.env['BASE_URL'] ?? '';
const client = createClient({ baseUrl, auth: () => process.env['API_KEY'] ?? '' });

/** Does again what was refused for now, when the service says that it can be done. */
async function patiently<Result extends { response?: Response }>(call: () => Promise<Result>): Promise<Result> {
  for (;;) {
    const result = await call();
    if (![429, 503].includes(result.response?.status ?? 0)) return result; // its `error.code` tells errors apart
    await new Promise((go) => setTimeout(go, 1_000 * (Number(result.response?.headers.get('Retry-After')) || 5)));
  }
}

const subjects: (string | null)[][] = [];
let after: string | undefined;
do {
  const { data, error } = await listConversations({
    client,
    query: { limit: 2, sort: 'createdAt', status: ['active', 'pending'], ...(after === undefined ? {} : { after }) },
  });
  if (!data) throw new Error(error.detail);
  subjects.push(data.data.map(({ subject }) => subject));
  after = data.pagination.nextCursor ?? undefined;
} while (after !== undefined);

const { data: created } = await createConversation({
  client,
  body: { subject: 'Refund', metadata: { orderId: 1042 } },
});
const conversationId = created?.id ?? '';
const message = { client, path: { conversationId }, body: { sender: 'agent', content: 'How much was it?' } } as const;
const { data: sent } = await sendMessage({ ...message, headers: { 'Idempotency-Key': 'once' } });
const again = await sendMessage({ ...message, headers: { 'Idempotency-Key': 'once' } });

/** The events after one, for as long as they are asked for. */
async function* follow(cursor: string): AsyncGenerator<Event> {
  const leaving = new AbortController(); // who only leaves the loop leaves the connection open
  let last = cursor;
  try {
    // A stream ends when the service stops.
    for (;;) {
      const { stream } = await streamEvents({
        client,
        query: { types: ['message.received', 'conversation.closed'] },
        headers: { 'Last-Event-ID': last },
        signal: leaving.signal,
      });
      for await (const data of stream) {
        const event = data as unknown as Event; // by OpenAPI 3.1, a stream is a text
        last = event.cursor;
        yield event;
      }
    }
  } finally {
    leaving.abort();
  }
}

console.log('opened');
const received: string[] = [];
for await (const { type, data } of follow(process.env['CURSOR'] ?? '')) {
  if (type === 'conversation.closed') break;
  if (type !== 'message.received' || 'erased' in data) continue;
  received.push(data.message.content);
  console.log(`received ${data.message.content}`);
}

const change = { client, path: { id: conversationId } };
await updateConversation({ ...change, body: { status: 'closed' } });
const late = await sendMessage(message);
const reopened = await updateConversation({ ...change, body: { status: 'pending' } });
const spent = createClient({ baseUrl, auth: () => process.env['SPENT_KEY'] ?? '' });
const limited = await listConversations({ client: spent });
console.log('limited');
const patient = await patiently(() => listConversations({ client: spent, query: { limit: 1 } }));
const failures: string[] = [];
const { stream } = await streamEvents({
  client: spent,
  sseMaxRetryAttempts: 1,
  onSseError: (error) => failures.push(String(error)),
});
for await (const _ of stream) throw new Error('There must be no event.');

console.log(
  JSON.stringify({
    subjects,
    sequences: [sent?.sequence, again.data?.sequence],
    replayed: again.response?.headers.get('Idempotent-Replayed'),
    received,
    refused: late.error?.code === 'CONVERSATION_CLOSED' && late.error.title,
    transition: reopened.error?.code,
    limited: [limited.error?.code, limited.response?.status, limited.response?.headers.has('Retry-After')],
    patient: patient.data?.data.length,
    failures,
  }),
);

// A program with the client that Orval makes of openapi.json. It prints what it has seen.
import { createConversation, listConversations, sendMessage, updateConversation } from './generated/orval';

const as = (credential = ''): RequestInit => ({ headers: { Authorization: `Bearer ${credential}` } });
const me = as(process.env['API_KEY']);

const subjects: (string | null)[][] = [];
let after: string | undefined;
do {
  const listed = await listConversations({ limit: 2, sort: 'createdAt', status: ['active', 'pending'], after }, me);
  if (listed.status !== 200) throw new Error(listed.data.detail);
  subjects.push(listed.data.data.map(({ subject }) => subject));
  after = listed.data.pagination.nextCursor ?? undefined;
} while (after !== undefined);

const created = await createConversation({ subject: 'Refund', metadata: { orderId: 1042 } }, me);
if (created.status !== 201) throw new Error(created.data.detail);
const { id } = created.data;
const sent = await sendMessage(id, { sender: 'agent', content: 'How much was it?' }, me);
await updateConversation(id, { status: 'closed' }, me);
const late = await sendMessage(id, { sender: 'agent', content: 'Hello?' }, me);
const limited = await listConversations({}, as(process.env['SPENT_KEY']));

console.log(
  JSON.stringify({
    subjects,
    sequence: sent.status === 201 && sent.data.sequence,
    refused: late.status === 409 && late.data.code,
    limited: limited.status === 429 && [limited.data.code, limited.headers.has('Retry-After')],
  }),
);

import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Json } from './support/client.ts';
import { effort } from './support/effort.ts';
import { startTestServer, type TestAccount, type TestServer } from './support/server.ts';

// The life of a conversation as a state machine: random commands, each through a random face, against a
// model that is written from the contract's table and knows nothing of the code.

type Status = 'active' | 'pending' | 'closed';
type Sender = 'agent' | 'visitor' | 'bot';

interface Model {
  status: Status;
  version: number;
  messageCount: number;
  createdAt: string;
  lastActivityAt: string;
  visitorWrote: boolean;
  firstResponseAt: string | null;
  closedAt: string | null;
  events: string[];
}

type Command =
  | { readonly kind: 'status'; readonly to: Status }
  | { readonly kind: 'message'; readonly sender: Sender }
  | { readonly kind: 'subject'; readonly subject: string };

/** What the table says of a command: the code of its refusal, or undefined after changing the model. */
function apply(model: Model, command: Command, at: string): string | undefined {
  switch (command.kind) {
    case 'status': {
      if (command.to === model.status) return undefined;
      if (model.status === 'closed' && command.to === 'pending') return 'INVALID_TRANSITION';
      if (command.to === 'closed') model.events.push('conversation.closed');
      else model.events.push(model.status === 'closed' ? 'conversation.reopened' : 'conversation.updated');
      model.closedAt = command.to === 'closed' ? at : null;
      model.status = command.to;
      model.version++;
      return undefined;
    }
    case 'message': {
      if (model.status === 'closed' && command.sender !== 'visitor') return 'CONVERSATION_CLOSED';
      if (model.status === 'closed') {
        model.status = 'pending';
        model.closedAt = null;
        model.events.push('conversation.reopened');
      } else if (command.sender === 'agent') {
        if (model.status === 'pending') model.events.push('conversation.updated');
        model.status = 'active';
      }
      if (command.sender === 'visitor') model.visitorWrote = true;
      model.events.push(typeOf(command.sender));
      if (command.sender === 'agent' && model.visitorWrote) model.firstResponseAt ??= at;
      model.messageCount++;
      model.lastActivityAt = at;
      model.version++;
      return undefined;
    }
    case 'subject':
      model.events.push('conversation.updated');
      model.version++;
      return undefined;
  }
}

const typeOf = (sender: Sender): string => (sender === 'visitor' ? 'message.received' : 'message.sent');

function start(asked: Status | undefined, first: Sender | undefined, at: string): Model | undefined {
  if (asked === 'closed') return undefined;
  const status = first === 'agent' ? 'active' : (asked ?? (first === 'visitor' ? 'pending' : 'active'));
  return {
    status,
    version: 1,
    messageCount: first === undefined ? 0 : 1,
    createdAt: at,
    lastActivityAt: at,
    visitorWrote: first === 'visitor',
    firstResponseAt: null,
    closedAt: null,
    events: ['conversation.started', ...(first === undefined ? [] : [typeOf(first)])],
  };
}

async function send(
  client: TestAccount,
  id: string,
  command: Command,
  overGraphql: boolean,
): Promise<string | undefined> {
  if (!overGraphql) {
    const answer =
      command.kind === 'message'
        ? await client.rest('POST', `/conversations/${id}/messages`, {
            body: { content: 'text', sender: command.sender },
          })
        : await client.rest('PATCH', `/conversations/${id}`, {
            body: command.kind === 'status' ? { status: command.to } : { subject: command.subject },
          });
    return answer.body.code;
  }
  const { errors } =
    command.kind === 'message'
      ? await client.graphql('mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }', {
          input: { conversationId: id, content: 'text', sender: command.sender.toUpperCase() },
        })
      : command.kind === 'status' && command.to !== 'pending'
        ? await client.graphql(
            `mutation ($id: ID!) { ${command.to === 'closed' ? 'closeConversation' : 'reopenConversation'}(input: { id: $id }) { eventCursor } }`,
            { id },
          )
        : await client.graphql(
            'mutation ($input: UpdateConversationInput!) { updateConversation(input: $input) { eventCursor } }',
            {
              input: {
                id,
                ...(command.kind === 'status' ? { status: command.to.toUpperCase() } : { subject: command.subject }),
              },
            },
          );
  return errors?.[0]?.extensions.code;
}

const status = fc.constantFrom<Status>('active', 'pending', 'closed');
const sender = fc.constantFrom<Sender>('agent', 'visitor', 'bot');
const step = fc.record({
  overGraphql: fc.boolean(),
  laterMs: fc.integer({ min: 1, max: 90_000 }),
  command: fc.oneof<fc.Arbitrary<Command>[]>(
    fc.record({ kind: fc.constant('status' as const), to: status }),
    fc.record({ kind: fc.constant('message' as const), sender }),
    fc.record({ kind: fc.constant('subject' as const), subject: fc.uuid() }),
  ),
});

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

test('a conversation lives by the table, whichever face each command comes through', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.option(status, { nil: undefined }),
      fc.option(sender, { nil: undefined }),
      fc.array(step, { maxLength: 12 }),
      async (asked, first, steps) => {
        const client = await server.account();
        const now = () => new Date(server.clock.nowMs).toISOString();
        const model = start(asked, first, now());
        const created = await client.rest('POST', '/conversations', {
          body: {
            ...(asked === undefined ? {} : { status: asked }),
            ...(first === undefined ? {} : { message: { content: 'first', sender: first } }),
          },
        });
        if (model === undefined) {
          expect(created.body.errors).toEqual([{ pointer: '/status', detail: 'must be one of `active`, `pending`' }]);
          return;
        }
        const { id } = created.body;
        for (const { command, overGraphql, laterMs } of steps) {
          server.clock.advance(laterMs);
          const expected = apply(model, command, now());
          expect(await send(client, id, command, overGraphql)).toBe(expected);
          const { body } = await client.rest('GET', `/conversations/${id}`);
          const { visitorWrote: _, events: __, ...visible } = model;
          expect(body).toMatchObject(visible);
          expect(body.messages.map((message: Json) => message.sequence)).toEqual(
            Array.from({ length: model.messageCount }, (_unused, index) => index + 1),
          );
        }
        const events = await server.log(client.account.id);
        expect(events.map(({ type }) => type)).toEqual(model.events);
        expect(events.map(({ sequence }) => sequence)).toEqual(model.events.map((_unused, index) => index + 1));
        const { body } = await client.rest('GET', `/conversations?status=${model.status}`);
        expect(body.pagination.total).toBe(1);
      },
    ),
    { numRuns: effort(12, 600) },
  );
}, 600_000);

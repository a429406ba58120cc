import { app } from './fastify-app.mjs';
import { listBody, oneBody, send } from './store.mjs';

// REST as one writes it with Fastify: schemas for what comes in and what goes out.

const nullable = (type) => ({ type, nullable: true });
const text = { type: 'string' };
const person = { type: 'object', nullable: true, properties: { id: nullable('string'), name: nullable('string') } };
const conversation = {
  type: 'object',
  properties: {
    id: text,
    status: text,
    subject: nullable('string'),
    visitor: {
      type: 'object',
      nullable: true,
      properties: { id: nullable('string'), name: nullable('string'), email: nullable('string') },
    },
    externalId: nullable('string'),
    assignee: person,
    tags: { type: 'array', items: text },
    metadata: { type: 'object', additionalProperties: true },
    messageCount: { type: 'integer' },
    lastMessage: {
      type: 'object',
      nullable: true,
      properties: {
        id: text,
        sequence: { type: 'integer' },
        sender: text,
        author: person,
        createdAt: text,
        preview: text,
      },
    },
    lastActivityAt: text,
    firstResponseAt: nullable('string'),
    closedAt: nullable('string'),
    version: { type: 'integer' },
    createdAt: text,
    updatedAt: text,
    readPositions: {
      type: 'array',
      items: { type: 'object', properties: { reader: text, sequence: { type: 'integer' }, readAt: text } },
    },
  },
};
const message = {
  type: 'object',
  properties: {
    id: text,
    conversationId: text,
    sequence: { type: 'integer' },
    sender: text,
    content: text,
    author: person,
    clientId: nullable('string'),
    metadata: { type: 'object', additionalProperties: true },
    createdAt: text,
  },
};
const list = {
  type: 'object',
  properties: {
    data: { type: 'array', items: conversation },
    pagination: {
      type: 'object',
      properties: {
        limit: { type: 'integer' },
        offset: { type: 'integer' },
        total: { type: 'integer' },
        hasMore: { type: 'boolean' },
        nextCursor: nullable('string'),
      },
    },
  },
};
const whole = {
  type: 'object',
  properties: { ...conversation.properties, messages: { type: 'array', items: message } },
};

app.get(
  '/v1/conversations',
  {
    schema: {
      querystring: {
        type: 'object',
        properties: { limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 }, after: text },
      },
      response: { 200: list },
    },
  },
  async ({ accountId, query }) => listBody(accountId, query),
);
app.get('/v1/conversations/:id', { schema: { response: { 200: whole } } }, async ({ accountId, params }) =>
  oneBody(accountId, params.id),
);
app.post(
  '/v1/conversations/:id/messages',
  {
    schema: {
      body: {
        type: 'object',
        required: ['content', 'sender'],
        properties: {
          content: { type: 'string', minLength: 1, maxLength: 16384 },
          sender: { enum: ['agent', 'visitor', 'bot'] },
        },
      },
      response: { 201: message },
    },
  },
  async ({ accountId, params, body }, reply) => reply.code(201).send(await send(accountId, params.id, body)),
);
await app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' });

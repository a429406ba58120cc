import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { maxReadPositions } from '../../src/domain/read-position-record.ts';
import type { Client, Json } from '../support/client.ts';
import { effort } from '../support/effort.ts';
import { inFormOfRest } from '../support/event-data.ts';
import { readLog } from '../support/log.ts';
import * as select from '../support/selections.ts';
import { startTestServer, type TestAccount, type TestServer } from '../support/server.ts';

// Whoever reads the log and nothing else knows what the API shows: random operations through random faces, and after
// each of them a reader that keeps what events told it, compared with the API field by field.

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

const text = fc.constantFrom('a', 'b', 'c');
/** Some are what every object of JavaScript inherits. */
const key = fc.constantFrom('a', 'b', 'constructor', 'toString');
const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });
/** With an id that can be a reader's, or not. */
const person = orNull(fc.record({ id: fc.constantFrom('a', 'b', 'c', 'no reader'), name: orNull(text) }));
const some = fc.array(text, { maxLength: 3 });
const optional = <T>(fields: { [K in keyof T]: fc.Arbitrary<T[K]> }) => fc.record(fields, { requiredKeys: [] });
const fields = {
  subject: orNull(text),
  visitor: person,
  externalId: orNull(text),
  assignee: person,
  metadata: fc.dictionary(key, orNull(fc.constantFrom(1, true, 'x')), { maxKeys: 3 }),
};
const message = fc.record({
  sender: fc.constantFrom('agent', 'visitor', 'bot'),
  content: fc.constantFrom('Hello', '📦'.repeat(300)),
  clientId: orNull(text),
  author: person,
});

type Command =
  | { readonly kind: 'create'; readonly body: Json }
  | { readonly kind: 'change'; readonly body: Json }
  | { readonly kind: 'send'; readonly body: Json }
  | { readonly kind: 'read'; readonly body: Json }
  | { readonly kind: 'lead'; readonly body: Json }
  | { readonly kind: 'delete' };

const status = fc.constantFrom('active', 'pending', 'closed');
const creation: fc.Arbitrary<Command> = fc.record({
  kind: fc.constant('create' as const),
  body: optional<Json>({
    ...fields,
    metadata: fc.constantFrom({ a: 1 }, { toString: 1 }),
    status,
    tags: some,
    message: orNull(message),
  }),
});
const change: fc.Arbitrary<Command> = fc.record({
  kind: fc.constant('change' as const),
  body: fc.oneof(
    optional<Json>({ ...fields, status, tags: some }),
    optional<Json>({ status, addTags: some, removeTags: some, metadata: fc.constant(null) }),
    fc.constantFrom({ status: 'closed' }, { status: 'active' }),
  ),
});
const sending: fc.Arbitrary<Command> = fc.record({ kind: fc.constant('send' as const), body: message });
const reading: fc.Arbitrary<Command> = fc.record({
  kind: fc.constant('read' as const),
  body: fc.record({ reader: fc.constantFrom('a', 'b', 'visitor'), sequence: fc.nat(3) }),
});
const capturing: fc.Arbitrary<Command> = fc.record({
  kind: fc.constant('lead' as const),
  body: fc.record({ phone: fc.constant('1'), name: orNull(text), metadata: fc.constantFrom({}, { toString: 1 }) }),
});
const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 2, arbitrary: creation },
  { weight: 6, arbitrary: change },
  { weight: 4, arbitrary: sending },
  { weight: 4, arbitrary: reading },
  { weight: 1, arbitrary: capturing },
  { weight: 1, arbitrary: fc.constant<Command>({ kind: 'delete' }) },
);
const step = fc.record({ overGraphql: fc.boolean(), which: fc.nat(2), command });

const capitals = ({ status: to, sender, message: first, ...input }: Json): Json => ({
  ...input,
  ...(to != null && { status: to.toUpperCase() }),
  ...(sender != null && { sender: sender.toUpperCase() }),
  ...(first != null && { message: capitals(first) }),
});

/** @param id the conversation that the command is about, unless it creates one */
async function run(client: TestAccount, { kind, ...rest }: Command, id: string, overGraphql: boolean): Promise<void> {
  const { body = {} } = rest as { body?: Json };
  const mutation = async (field: string, type: string, input: Json) => {
    await client.graphql(`mutation ($input: ${type}!) { ${field}(input: $input) { eventCursor } }`, { input });
  };
  switch (kind) {
    case 'create':
      if (overGraphql) await mutation('createConversation', 'CreateConversationInput', capitals(body));
      else await client.rest('POST', '/conversations', { body });
      break;
    case 'change':
      if (overGraphql && JSON.stringify(body) === '{"status":"closed"}')
        await mutation('closeConversation', 'CloseConversationInput', { id });
      else if (overGraphql && JSON.stringify(body) === '{"status":"active"}')
        await mutation('reopenConversation', 'ReopenConversationInput', { id });
      else if (overGraphql) await mutation('updateConversation', 'UpdateConversationInput', { ...capitals(body), id });
      else await client.rest('PATCH', `/conversations/${id}`, { body });
      break;
    case 'send':
      if (overGraphql) await mutation('sendMessage', 'SendMessageInput', { ...capitals(body), conversationId: id });
      else await client.rest('POST', `/conversations/${id}/messages`, { body });
      break;
    case 'read': {
      const { reader, sequence } = body;
      if (overGraphql) await mutation('markRead', 'MarkReadInput', { ...body, conversationId: id });
      else await client.rest('PUT', `/conversations/${id}/read-positions/${reader}`, { body: { sequence } });
      break;
    }
    case 'lead':
      if (overGraphql) await mutation('captureLead', 'CaptureLeadInput', { ...body, conversationId: id });
      else await client.rest('POST', '/leads', { body: { ...body, conversationId: id } });
      break;
    case 'delete':
      if (overGraphql) await mutation('deleteConversation', 'DeleteConversationInput', { id });
      else await client.rest('DELETE', `/conversations/${id}`);
  }
}

/** Knows of conversations what the events told. */
class Reader {
  /** The last snapshot of each. */
  readonly snapshots = new Map<string, Json>();
  /** The same without looking at any snapshot but the first: from changes, messages and the types of events. */
  readonly folded = new Map<string, Json>();
  readonly messages = new Map<string, Json[]>();
  /** The newest first. */
  leads: Json[] = [];
  /** How far each reader has read each; the one that has not moved for longest comes first. */
  readonly positions = new Map<string, Map<string, Json>>();

  /** Sorted by reader. */
  positionsIn(id: string): Json[] {
    return [...(this.positions.get(id)?.values() ?? [])].sort((a, b) => (a.reader < b.reader ? -1 : 1));
  }

  /**
   * Whoever sends has read up to that, an assignee gets a position, and beyond fifty one gives way: what has no event of
   * its own.
   */
  #fold(id: string, { type, timestamp: readAt, data }: Json): void {
    const positions = this.positions.get(id) ?? new Map<string, Json>();
    this.positions.set(id, positions);
    const put = (reader: string | null | undefined, sequence: number): void => {
      if (reader == null || reader === 'no reader' || sequence <= (positions.get(reader)?.sequence ?? -1)) return;
      const [longestAgo = ''] = positions.keys();
      if (!positions.delete(reader) && positions.size === maxReadPositions) positions.delete(longestAgo);
      positions.set(reader, { reader, sequence, readAt });
    };
    const { assignee } = data.changes ?? {};
    if (type === 'conversation.started') put(data.conversation.assignee?.id, 0);
    if (assignee !== undefined && assignee.to?.id !== assignee.from?.id) put(assignee.to?.id, 0);
    if (data.message?.sender === 'visitor') put('visitor', data.message.sequence);
    else put(data.message?.author?.id, data.message?.sequence);
    if (type === 'conversation.read') {
      expect(data.readPosition.readAt).toBe(readAt);
      expect(data.readPosition.sequence).toBeGreaterThan(positions.get(data.readPosition.reader)?.sequence ?? -1);
      put(data.readPosition.reader, data.readPosition.sequence);
    }
  }

  take(event: Json): void {
    const { type, data } = event;
    if (type === 'conversation.deleted') {
      for (const known of [this.snapshots, this.folded, this.messages, this.positions])
        known.delete(data.conversationId);
      this.leads = this.leads.filter(({ conversationId }) => conversationId !== data.conversationId);
      return;
    }
    if (type === 'lead.captured') {
      this.leads.unshift(data.lead);
      return;
    }
    this.#fold(data.conversation?.id ?? data.conversationId, event);
    if (type === 'conversation.read') return;
    const { conversation, message: sent, changes = {} } = data;
    const { id } = conversation;
    const known = this.snapshots.get(id);
    expect(known === undefined).toBe(type === 'conversation.started');
    if (known !== undefined) expect(conversation.version).toBeGreaterThanOrEqual(known.version);
    this.snapshots.set(id, conversation);
    if (known === undefined) this.messages.set(id, []);
    if (sent !== undefined) this.messages.get(id)?.push(sent);

    const folded = { ...(this.folded.get(id) ?? conversation) };
    for (const [field, change] of Object.entries<Json>(changes)) {
      if (field === 'metadata') {
        folded.metadata = { ...folded.metadata };
        for (const [name, { from, to }] of Object.entries<Json>(change)) {
          expect(Object.hasOwn(folded.metadata, name) ? folded.metadata[name] : null).toEqual(from);
          if (to === null) delete folded.metadata[name];
          else folded.metadata[name] = to;
        }
      } else {
        expect(folded[field]).toEqual(change.from);
        expect(change.to).not.toEqual(change.from);
        folded[field] = change.to;
      }
    }
    if (type === 'conversation.closed') folded.status = 'closed';
    if (type === 'conversation.reopened') folded.status = conversation.status; // by the visitor or by an agent
    this.folded.set(id, folded);
  }

  /** What the changes alone have to account for. */
  compareFolded(): void {
    for (const [id, snapshot] of this.snapshots) {
      const { subject, visitor, externalId, assignee, tags, metadata, status: now } = snapshot;
      const told = { subject, visitor, externalId, assignee, tags, metadata, status: now };
      expect(this.folded.get(id)).toMatchObject(told);
      expect(this.folded.get(id)?.metadata).toEqual(metadata);
    }
  }
}

/** GraphQL’s enumerations, as REST writes them. */
function inSmallLetters(nodes: Json): Json {
  const spelt = JSON.stringify(nodes).replaceAll(
    /"(status|sender|type)":"(\w+)"/g,
    (_, name, value) => `"${name}":"${name === 'type' ? value.replace('_', '.').toLowerCase() : value.toLowerCase()}"`,
  );
  return JSON.parse(spelt);
}

async function readAll(client: Client, after: string | undefined, take: (event: Json) => void): Promise<string> {
  const query = after === undefined ? '' : `&after=${after}`;
  const { data, pagination } = (await client.rest('GET', `/events?limit=100${query}`)).body;
  for (const event of data) take(event);
  return pagination.nextCursor;
}

test('a reader of the log knows at every sequence what the API shows, field by field, whichever face changes came through', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const client = await server.account();
      await client.rest('POST', '/conversations', { body: { metadata: { b: 2 }, tags: ['c'] } });
      const reader = new Reader();
      let cursor = await readAll(client, undefined, (event) => reader.take(event));
      for (const { overGraphql, which, command: asked } of steps) {
        server.clock.advance(1_000);
        const ids = [...reader.snapshots.keys()];
        await run(client, asked, ids[which % ids.length] ?? 'conv_none', overGraphql);
        cursor = await readAll(client, cursor, (event) => reader.take(event));
        reader.compareFolded();
        const { data } = (await client.rest('GET', '/conversations?limit=100&sort=createdAt')).body;
        const known = [...reader.snapshots].map(([id, it]) => ({ ...it, readPositions: reader.positionsIn(id) }));
        expect(known).toEqual(data);
        expect(reader.leads).toEqual((await client.rest('GET', '/leads?limit=100')).body.data);
        for (const [id, messages] of reader.messages) {
          expect(messages).toEqual((await client.rest('GET', `/conversations/${id}/messages`)).body.data);
        }
      }
      const { data } = await client.graphql(`{
        events(first: 100) { nodes { ${select.event} } }
        conversations(first: 100, sort: CREATED_AT_ASC) { nodes { ${select.conversation} } }
        leads(first: 100) { nodes { ${select.lead} } }
      }`);
      const all: Json[] = [];
      await readAll(client, undefined, (event) => all.push(event));
      expect(inSmallLetters(data.events.nodes.map(inFormOfRest))).toEqual(all);
      const known = [...reader.snapshots].map(([id, it]) => ({ ...it, readPositions: reader.positionsIn(id) }));
      expect(inSmallLetters(data.conversations.nodes)).toEqual(known);
      expect(data.leads.nodes).toEqual(reader.leads);
    }),
    { numRuns: effort(3, 200) },
  );
}, 600_000);

test('a reader of the log that lets a position go for a 51st, as the GUIDE says, knows those that the API shows', async () => {
  const readers = Array.from({ length: maxReadPositions + 6 }, (_, index) => `agent-${index}`);
  const who = fc.constantFrom(...readers);
  const marking = (reader: string, sequence: number) => `markRead(input: { conversationId: $id, reader: "${reader}",
    sequence: ${sequence} })`;
  const step = fc.oneof(
    fc.tuple(who, fc.nat(2)).map(([reader, sequence]) => marking(reader, sequence)),
    who.map(
      (id) => `sendMessage(input: { conversationId: $id, content: "x", sender: AGENT, author: { id: "${id}" } })`,
    ),
    who.map((id) => `updateConversation(input: { id: $id, assignee: { id: "${id}" } })`),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 30, maxLength: 60 }), async (steps) => {
      const client = await server.account();
      const { id } = (await client.rest('POST', '/conversations')).body;
      for (const content of ['Hello', 'Are you there?']) {
        await client.rest('POST', `/conversations/${id}/messages`, { body: { content, sender: 'visitor' } });
      }
      const first = readers.slice(0, maxReadPositions - 2).map((reader) => marking(reader, 0));
      const last = readers.slice(-3).map((reader) => marking(reader, 1));
      for (const some of [first, ...steps.map((each) => [each]), last]) {
        server.clock.advance(1_000);
        const mutation = some.map((each, index) => `m${index}: ${each} { eventCursor }`).join(' ');
        const { errors } = await client.graphql(`mutation ($id: ID!) { ${mutation} }`, { id });
        expect(errors).toBeUndefined();
      }
      const reader = new Reader();
      for (const event of await readLog(client)) reader.take(event);
      const { readPositions } = (await client.rest('GET', `/conversations/${id}`)).body;
      expect(readPositions).toHaveLength(maxReadPositions);
      expect(reader.positionsIn(id)).toEqual(readPositions);
    }),
    { numRuns: effort(1, 100) },
  );
}, 600_000);

test('a reader that is bound to a conversation knows what the API shows to it, and hears nothing of other changes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const account = await server.account();
      const { id } = (await account.rest('POST', '/conversations', { body: { assignee: { id: 'x', name: 'a' } } }))
        .body;
      const scopes = ['conversations:read', 'events:read'];
      const { token } = (await account.rest('POST', '/tokens', { body: { scopes, conversationId: id } })).body;
      const bound = server.clientFor(token);
      const shown = ['status', 'subject', 'assignee'];
      const told = [...shown, 'readPositions'];
      let seen = 1; // that it was started
      for (const { overGraphql, command: asked } of steps) {
        if (asked.kind === 'delete') continue;
        server.clock.advance(60_000);
        const before = (await bound.rest('GET', `/conversations/${id}?messages=none`)).body;
        await run(account, asked, id, overGraphql);
        const reader = new Reader();
        const events: Json[] = [];
        await readAll(bound, undefined, (event) => events.push(event));
        for (const event of events) reader.take(event);
        const now = (await bound.rest('GET', `/conversations/${id}?messages=none`)).body;
        const fresh = events.slice(seen);
        seen = events.length;
        // The rest moves with changes that it is not told of.
        const { version: _, updatedAt: __, visitor: ___, ...snapshot } = reader.snapshots.get(id);
        expect(now).toMatchObject(snapshot);
        const ofVisitor = reader.positionsIn(id).filter(({ reader: who }) => who === 'visitor');
        expect(now.readPositions).toEqual(ofVisitor);
        for (const { data } of fresh) {
          for (const name of Object.keys(data.changes ?? {})) {
            expect(shown).toContain(name);
            expect(now[name]).not.toEqual(before[name]);
          }
          if (data.readPosition === undefined)
            expect(data.conversation).toMatchObject({ tags: [], metadata: {}, externalId: null });
        }
        const isTold = told.some((name) => JSON.stringify(now[name]) !== JSON.stringify(before[name]));
        expect(fresh.length > 0).toBe(isTold || now.messageCount > before.messageCount);
      }
    }),
    { numRuns: effort(3, 200) },
  );
}, 600_000);

/** What readers bound to each visitor have to be told, by what a reader of the whole log has seen. */
class Told {
  readonly ids = new Map<string, string[]>();
  readonly #visitors = new Map<string, string | undefined>();

  take({ id, data }: Json): void {
    const conversationId = data.conversation?.id ?? data.conversationId;
    const before = this.#visitors.get(conversationId);
    const visitor = data.conversation === undefined ? before : data.conversation.visitor?.id;
    this.#visitors.set(conversationId, visitor);
    const { changes, readPosition = { reader: 'visitor' } } = data;
    const isShown =
      (changes === undefined && readPosition.reader === 'visitor') ||
      changes?.status !== undefined ||
      changes?.subject !== undefined ||
      (changes?.assignee !== undefined && nameIn(changes.assignee.from) !== nameIn(changes.assignee.to)) ||
      (changes?.visitor !== undefined && changes.visitor.from?.id !== visitor);
    if (visitor !== undefined && isShown) this.ids.set(visitor, [...(this.ids.get(visitor) ?? []), id]);
  }
}

/** A change of nothing: what was before it is looked at all the same. */
const nothing = { overGraphql: false, which: 0, command: { kind: 'change', body: {} } } as const;

const nameIn = (assignee: Json): string => (assignee === null ? 'nobody' : `named ${assignee.name}`);

test('readers that are bound to visitors are told of what is theirs when it happens, and of nothing else', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 4, maxLength: 14 }), async (steps) => {
      const account = await server.account();
      const scopes = ['conversations:read', 'events:read'];
      const pages = await Promise.all(
        ['a', 'b', 'c'].map(async (id) => {
          const { token } = (await account.rest('POST', '/tokens', { body: { scopes, visitor: { id } } })).body;
          return { id, client: server.clientFor(token) };
        }),
      );
      const told = new Told();
      const take = (event: Json) => {
        if (event.type !== 'lead.captured') told.take(event);
      };
      const cursors = new Map<string, string>();
      // From before there was anything, so that each event is read before it may be erased.
      for (const { id, client } of pages) cursors.set(id, (await client.graphql('{ eventCursor }')).data.eventCursor);
      await account.rest('POST', '/conversations', { body: { visitor: { id: 'a' } } });
      /** What each has heard, by its id and that of the conversation. */
      const heard = new Map<string, string[]>();
      const known = new Map<string, Json>();
      let cursor = await readAll(account, undefined, take);
      for (const { overGraphql, which, command: asked } of [nothing, ...steps]) {
        server.clock.advance(1_000);
        const { data: all } = (await account.rest('GET', '/conversations?sort=createdAt')).body;
        await run(account, asked, all[which % all.length]?.id ?? 'conv_none', overGraphql);
        cursor = await readAll(account, cursor, take);
        for (const { id, client } of pages) {
          const next = await readAll(client, cursors.get(id), (event) => {
            heard.set(id, [...(heard.get(id) ?? []), event.id]);
            if (event.type === 'conversation.deleted') known.delete(`${id} ${event.data.conversationId}`);
            else if (event.type !== 'conversation.read')
              known.set(`${id} ${event.data.conversation.id}`, event.data.conversation);
          });
          cursors.set(id, next);
          expect(heard.get(id)).toEqual(told.ids.get(id));
          const { data: shown } = (await client.rest('GET', '/conversations?limit=100')).body;
          const own = (await account.rest('GET', `/conversations?limit=100&visitorId=${id}`)).body.data;
          expect(shown.map((each: Json) => each.id)).toEqual(own.map((each: Json) => each.id));
          for (const conversation of shown) {
            // The rest moves with changes that it is not told of.
            const { version: _, updatedAt: __, visitor, ...snapshot } = known.get(`${id} ${conversation.id}`);
            expect(conversation).toMatchObject(snapshot);
            expect(visitor.id).toBe(id);
          }
        }
      }
    }),
    { numRuns: effort(2, 200) },
  );
}, 600_000);

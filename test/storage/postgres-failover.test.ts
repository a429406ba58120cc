import { expect, onTestFinished } from 'vitest';
import { Client } from '../../src/client/index.ts';
import { serve } from '../cli/program.ts';
import { clientOf, type Json } from '../support/client.ts';
import { longTest } from '../support/effort.ts';
import { readLog } from '../support/log.ts';
import { PostgresServer, postgresServer } from '../support/postgres.ts';
import { startTestServer } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { TcpRelay } from '../support/tcp-relay.ts';
import { eventually } from '../support/wait.ts';

/** A node on a primary with a synchronous standby, and what makes the standby its database. */
async function start() {
  const primary = await PostgresServer.start();
  onTestFinished(() => primary.remove());
  const url = await primary.database();
  const before = await startTestServer({ config: { postgres: { url, directUrl: undefined } } });
  const { secret } = await before.account();
  await before.close();
  const standby = await primary.startStandby();
  onTestFinished(() => standby.remove());
  const address = await TcpRelay.open(url);
  const node = await serve('', { DATABASE_URL: address.through(url) });
  const client = clientOf(node.url, secret);
  const create = (subject: string): Promise<Json> =>
    client.rest('POST', '/conversations', { body: { subject }, headers: { 'idempotency-key': subject } });
  return { primary, standby, url, address, node, client, secret, create };
}

longTest(
  'when the primary is lost, a node goes on with the replica in its place once that is promoted, and loses nothing',
  {
    timeout: 120_000,
  },
  async () => {
    const { primary, standby, url, address, node, client, create } = await start();
    const acknowledged: string[] = [];
    for (let number = 0; number < 30; number++) {
      const { status, body } = await create(`subject-${number}`);
      expect(status).toBe(201);
      acknowledged.push(body.id);
    }
    const { eventCursor } = (await client.rest('GET', '/account')).body;

    await primary.crash();
    address.remove(url);
    expect((await create('meanwhile')).status).toBe(503);
    // The address leads to the replica before that takes writes.
    address.add(standby.urlHere(url));
    expect((await create('meanwhile')).status).toBe(503);
    await standby.promote();
    await eventually(
      () => create('meanwhile'),
      ({ status }) => status === 201,
    );

    const log = await readLog(client);
    expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
    expect(log.map(({ data }) => data.conversation.id).slice(0, 30)).toEqual(acknowledged);
    expect(log.map(({ data }) => data.conversation.subject).filter((subject) => subject === 'meanwhile')).toHaveLength(
      1,
    );
    expect(await create('subject-7')).toMatchObject({ status: 201, body: { id: acknowledged[7] } });
    // The service cannot know that nothing was lost.
    const { status, body } = await client.rest('GET', `/events?after=${encodeURIComponent(eventCursor)}`);
    expect({ status, code: body.code }).toEqual({ status: 410, code: 'CURSOR_EXPIRED' });
    node.signal('SIGTERM');
    expect((await node.ended).code).toBe(0);
  },
);

longTest(
  'when the replica in the place of the primary lacks its last events, open streams end, and no reader is given one that is gone',
  { timeout: 120_000 },
  async () => {
    const { primary, standby, url, address, node, client, secret, create } = await start();
    const open = (after?: string) =>
      SseReader.open(`${node.url}/v1/events/stream`, {
        authorization: `Bearer ${secret}`,
        ...(after !== undefined && { 'last-event-id': after }),
      });
    const subjects = ({ events }: SseReader): string[] => events.map(({ data }) => data.conversation.subject);
    const stream = await open();
    for (const subject of ['first', 'second']) await create(subject);
    await standby.fallBehind(primary);
    for (const subject of ['third', 'fourth']) await create(subject);
    await stream.until(({ events }) => events.length === 4);

    await primary.crash();
    address.remove(url);
    address.add(standby.urlHere(url));
    await standby.promote();
    await eventually(
      () => create('fifth'),
      ({ status }) => status === 201,
    );
    for (const subject of ['sixth', 'seventh']) await create(subject);
    await stream.until(({ ended }) => ended);
    expect(subjects(stream)).toEqual(['first', 'second', 'third', 'fourth']);
    expect((await open(stream.lastEventId)).status).toBe(410);
    const all = ['first', 'second', 'fifth', 'sixth', 'seventh'];
    expect((await readLog(client)).map(({ data }) => data.conversation.subject)).toEqual(all);
    const { body } = await client.rest('GET', '/events?limit=2');
    const next = await open(body.pagination.nextCursor);
    await next.until(({ events }) => events.length === 3);
    expect(subjects(next)).toEqual(all.slice(2));
    next.close();
    node.signal('SIGTERM');
    expect((await node.ended).code).toBe(0);
  },
);

const { database } = postgresServer();

longTest(
  'when the answer to a commit is lost, every API says that it may have been done, and the client does it once',
  { timeout: 60_000 },
  async () => {
    const url = await database();
    const relay = await TcpRelay.open(url);
    const server = await startTestServer({ config: { postgres: { url: relay.through(url), directUrl: undefined } } });
    onTestFinished(() => server.close());
    const account = await server.account();
    const { rest, graphql } = account;
    const create = () => rest('POST', '/conversations', { body: {} });
    expect((await create()).status).toBe(201);

    const cutAtCommit = async <Answer>(send: () => Promise<Answer>): Promise<Answer> => {
      const cut = relay.cutAtAnswer('COMMIT');
      const answer = await send();
      await cut;
      await eventually(create, ({ status }) => status === 201);
      return answer;
    };
    const { status, body } = await cutAtCommit(create);
    expect({ status, body }).toMatchObject({ status: 503, body: { code: 'UNAVAILABLE', outcomeUnknown: true } });
    const { errors } = await cutAtCommit(() =>
      graphql('mutation { createApiKey(input: { name: "A", scopes: [EVENTS_READ] }) { apiKey { id } } }'),
    );
    expect(errors).toMatchObject([{ extensions: { code: 'UNAVAILABLE', outcomeUnknown: true, retryAfterSeconds: 1 } }]);
    const client = new Client({ url: server.url, credential: account.secret });
    const called = await cutAtCommit(() =>
      client.call('createApiKey', { name: 'B', scopes: ['events:read'] }).catch((error: unknown) => error),
    );
    expect(called).toMatchObject({ code: 'UNAVAILABLE', outcomeUnknown: true });
    const { data } = await client.call('listApiKeys');
    expect(data.map(({ name }) => name).toSorted()).toEqual(['A', 'B', 'first key']);

    relay.remove(url);
    relay.cut();
    const before = await create();
    expect(before.body).toMatchObject({ code: 'UNAVAILABLE' });
    expect(before.body).not.toHaveProperty('outcomeUnknown');
    relay.add(url);
  },
);

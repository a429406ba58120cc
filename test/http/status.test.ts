import { request } from 'undici';
import { describe, expect, onTestFinished, test } from 'vitest';
import { operations } from '../../src/domain/operations.ts';
import type { Storage } from '../../src/domain/storage-port.ts';
import { createLog } from '../../src/server/log.ts';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { StatusProbes } from '../../src/telemetry/status-probes.ts';
import { Scrape, scrape } from '../support/metrics.ts';
import { isOnPostgres } from '../support/postgres.ts';
import { startTestServer, type TestServer, type TestServerOptions } from '../support/server.ts';
import { SseReader } from '../support/sse.ts';
import { RawSocket } from '../support/subscribe.ts';
import { eventually, gate } from '../support/wait.ts';
import { openScene, startConversation } from '../support/webhooks.ts';
import { openWire, requestText } from './wire.ts';

// What those ask who watch over the service: /healthz, /readyz and /metrics.

async function start(options?: TestServerOptions): Promise<TestServer> {
  const server = await startTestServer(options);
  onTestFinished(() => server.close());
  return server;
}

async function ask(url: string, method: 'GET' | 'HEAD' | 'POST' | 'OPTIONS' = 'GET') {
  const { statusCode, headers, body } = await request(url, { method });
  return { status: statusCode, headers, text: await body.text() };
}

const probes = ['/healthz', '/readyz', '/metrics'];

describe('every probe', () => {
  test.each(probes)('%s needs no credential, takes GET and HEAD, and is not kept by anybody', async (path) => {
    const { url } = await start();
    const got = await ask(url + path);
    expect(got).toMatchObject({ status: 200, headers: { 'cache-control': 'no-store' } });
    expect(got.headers['x-request-id']).toMatch(/^\S+$/);
    const head = await ask(url + path, 'HEAD');
    expect(head).toMatchObject({ status: 200, text: '', headers: { 'content-type': got.headers['content-type'] } });
    expect(await ask(url + path, 'OPTIONS')).toMatchObject({ status: 204, headers: { allow: 'GET, HEAD, OPTIONS' } });
    expect(await ask(url + path, 'POST')).toMatchObject({ status: 405, headers: { allow: 'GET, HEAD, OPTIONS' } });
  });

  test('is never refused, leaves no line in the log and is counted nowhere', async () => {
    const server = await start();
    for (let count = 0; count < 30; count++) {
      for (const path of probes) expect((await ask(server.url + path)).status).toBe(200);
    }
    expect(server.logLines).toEqual([]);
    expect((await scrape(server.url)).family('conversation_service_operations_total')).toEqual({});
  });
});

test.each([
  ['rest', (offset: number) => `/v1/conversations?offset=${offset}`],
  ['graphql', (offset: number) => `/graphql?query={conversations(offset:${offset}){nodes{id,subject}}}`],
])(
  'a probe does not wait until all reads are answered that have come together on one connection: %s',
  async (face, path) => {
    const { url, account } = await start();
    const { secret } = await account();
    const [wire, probe] = [openWire(url), openWire(url)];
    const headers = { authorization: `Bearer ${secret}` };
    const reads = Array.from({ length: 15 }, (_, offset) => requestText('GET', path(offset), { headers }));
    await probe.send(requestText('GET', '/healthz'));
    await probe.response();
    const before: number[] = [];
    for (let round = 0; round < 6; round++) {
      await Promise.all([wire.send(reads.join('')), probe.send(requestText('GET', '/metrics'))]);
      const metrics = new Scrape((await probe.response()).body);
      const answered = metrics.get(`conversation_service_http_responses_total{face="${face}",status="200"}`) ?? 0;
      before.push(answered - round * reads.length);
      for (const _ of reads) expect((await wire.response()).status).toBe(200);
    }
    // Most often: it can come a turn of the loop later. In the first round the reads wait for their account's budget.
    expect(before.slice(1).sort((a, b) => a - b)[2], String(before)).toBeLessThanOrEqual(1);
  },
);

describe('/healthz', () => {
  test('says that the process answers, whatever its storage does', async () => {
    const server = await startTestServer();
    expect(await ask(`${server.url}/healthz`)).toMatchObject({
      status: 200,
      headers: { 'content-type': 'application/json; charset=utf-8' },
      text: '{"status":"ok"}',
    });
    await server.storage.close();
    expect((await ask(`${server.url}/healthz`)).status).toBe(200);
    await server.close();
  });
});

describe('/readyz', () => {
  test('is 200 as long as the storage can be read', async () => {
    const { url } = await start();
    expect(await ask(`${url}/readyz`)).toMatchObject({
      status: 200,
      headers: { 'content-type': 'application/json; charset=utf-8' },
      text: '{"status":"ready"}',
    });
  });

  test('is 200 while another process keeps everybody from writing', async () => {
    const { url, holdWrites } = await start();
    onTestFinished(await holdWrites());
    expect((await ask(`${url}/readyz`)).status).toBe(200);
  });

  test.skipIf(isOnPostgres)('asks the storage each time', async () => {
    const statements: string[] = [];
    const { url } = await start({ onStatement: (sql) => statements.push(sql) });
    const asked = () => statements.filter((sql) => sql === 'SELECT value FROM meta LIMIT 1').length;
    for (const times of [1, 2, 3]) {
      await ask(`${url}/readyz`);
      expect(asked()).toBe(times);
    }
  });

  test('is 503 when it cannot be read, and says in the log why, once however often anybody asks', async () => {
    const server = await startTestServer();
    await server.storage.close();
    for (let count = 0; count < 5; count++) {
      expect(await ask(`${server.url}/readyz`)).toMatchObject({ status: 503, text: '{"status":"unavailable"}' });
    }
    const said = server.logLines.filter(({ msg }) => msg === 'the storage cannot be read');
    expect(said).toMatchObject([{ level: 'warn', err: expect.anything() }]);
    await server.close();
  });

  test('does not wait for a storage that does not answer', async () => {
    const server = await start();
    const probes = probesOn(server, { ...server.storage, check: () => new Promise<never>(() => {}) });
    expect(await probes.readiness()).toBe('unavailable');
  });
});

/** The probes on a storage that behaves as none of ours does. */
function probesOn({ clock, app: { sessions, liveLog } }: TestServer, storage: Storage): StatusProbes {
  return new StatusProbes({
    storage,
    clock,
    log: createLog({ level: 'silent', clock }),
    metrics: new Metrics(),
    sessions,
    liveLog,
    loadShedder: { backlogMs: 0 },
    refused: () => 0,
  });
}

test('a storage that takes its time is asked once for all probes that come meanwhile, and again for the next', async () => {
  const server = await start();
  const { storage } = server;
  const asked = { check: 0, backlog: 0 };
  let answer = gate();
  const probes = probesOn(server, {
    ...storage,
    check: async () => {
      asked.check++;
      await answer.opened;
    },
    read: {
      ...storage.read,
      deliveries: {
        ...storage.read.deliveries,
        backlog: async (...args) => {
          asked.backlog++;
          await answer.opened;
          return await storage.read.deliveries.backlog(...args);
        },
      },
    },
  });
  for (const times of [1, 2]) {
    const all = Array.from({ length: 10 }, () => [probes.readiness(), probes.metrics()]).flat();
    answer.open();
    await Promise.all(all);
    expect(asked).toEqual({ check: times, backlog: 1 }); // the count is kept for a second
    answer = gate();
  }
});

describe('/metrics', () => {
  test('is in the text format of Prometheus', async () => {
    const { url } = await start();
    const { headers, text } = await ask(`${url}/metrics`);
    expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8');
    expect(text).toMatch(/^# HELP conversation_service_operations_total /);
  });

  const calls = (metrics: Scrape) => metrics.family('conversation_service_operations_total');
  const took = (metrics: Scrape, labels: string) =>
    metrics.get(`conversation_service_operation_duration_seconds_count${labels}`);

  test('counts calls of operations by face and by what they ended with', async () => {
    const { url, account } = await start();
    const client = await account();
    await client.rest('GET', '/conversations');
    await client.rest('GET', '/conversations?limit=0');
    await client.rest('GET', '/conversations/conv_x');
    await client.rest('POST', '/conversations', { body: { message: { sender: 'visitor', content: 'hello' } } });
    await client.graphql('{ a: conversations { totalCount } b: conversations { totalCount } }');
    await client.graphql('{ conversation(id: "conv_x") { id } account { id } }');
    await client.graphql('{ no }');
    await client.graphql('{');
    await client.graphql('{ __typename }');
    const metrics = await scrape(url);
    expect(calls(metrics)).toEqual({
      '{face="rest",operation="listConversations",code="OK"}': 1,
      '{face="rest",operation="listConversations",code="VALIDATION_FAILED"}': 1,
      '{face="rest",operation="getConversation",code="NOT_FOUND"}': 1,
      '{face="rest",operation="createConversation",code="OK"}': 1,
      '{face="graphql",operation="listConversations",code="OK"}': 2,
      '{face="graphql",operation="getConversation",code="NOT_FOUND"}': 1,
      '{face="graphql",operation="getAccount",code="OK"}': 1,
      '{face="graphql",operation="none",code="VALIDATION_FAILED"}': 1,
      '{face="graphql",operation="none",code="BAD_REQUEST"}': 1,
      '{face="graphql",operation="none",code="OK"}': 1,
    });
    expect(took(metrics, '{face="rest",operation="listConversations"}')).toBe(2);
    expect(metrics.family('conversation_service_http_responses_total')).toMatchObject({
      '{face="rest",status="200"}': 1,
      '{face="rest",status="400"}': 1,
      '{face="rest",status="404"}': 1,
      '{face="rest",status="201"}': 1,
    });
  });

  test('counts what fails inside an answer, once each time and on both faces of GraphQL', async () => {
    const { url, account, query } = await start();
    const client = await account();
    const sent = { message: { sender: 'visitor', content: 'hello' } };
    const { body } = await client.rest('POST', '/conversations', { body: sent });
    await client.rest('POST', '/conversations', { body: sent });
    const list = '{ conversations { nodes { messages { nodes { id } } } } }';
    expect((await client.graphql(list)).errors).toBeUndefined();
    // Somebody has been at the database: no reading of messages can succeed.
    await query('ALTER TABLE messages RENAME COLUMN metadata TO elsewhere');
    const atEdges = `{ account { id } nodes(ids: ["${body.messages[0].id}", "${body.messages[0].id}"]) { id } }`;
    expect(
      (await client.graphql('{ conversations { nodes { messages(last: 1) { nodes { id } } } } }')).errors,
    ).toHaveLength(2);
    expect((await client.graphql(atEdges)).errors).toHaveLength(2);
    expect((await client.graphql(`{ node(id: "${body.messages[0].id}") { id } }`)).errors).toHaveLength(1);
    const socket = await new RawSocket(url).init(client.secret);
    onTestFinished(() => socket.socket.terminate());
    socket.subscribe('1', atEdges);
    await socket.first('1', 'complete');
    const inGraphQL = Object.entries(calls(await scrape(url))).filter(([labels]) => !labels.includes('"rest"'));
    expect(Object.fromEntries(inGraphQL)).toEqual({
      '{face="graphql",operation="listConversations",code="OK"}': 2,
      '{face="graphql",operation="listMessages",code="OK"}': 2,
      '{face="graphql",operation="listMessages",code="INTERNAL"}': 2,
      '{face="graphql",operation="getAccount",code="OK"}': 1,
      '{face="graphql",operation="none",code="INTERNAL"}': 2,
      '{face="socket",operation="getAccount",code="OK"}': 1,
      '{face="socket",operation="none",code="INTERNAL"}': 1,
    });
  });

  test('counts under none, and logs without an operation, what turns out to be no request after all', async () => {
    const { url, account, logLines } = await start();
    const client = await account();
    const query = 'query ($id: ID = "x") { conversations { nodes { id } } conversation(id: $id) { id } }';
    const { errors, headers } = await client.graphql(query, { id: null });
    expect(errors).toMatchObject([{ extensions: { code: 'VALIDATION_FAILED' } }]);
    expect(calls(await scrape(url))).toEqual({ '{face="graphql",operation="none",code="VALIDATION_FAILED"}': 1 });
    const line = logLines.find(({ requestId }) => requestId === headers['x-request-id']);
    expect(line).toMatchObject({ msg: 'request', path: '/graphql' });
    expect(line).not.toHaveProperty('operation');
  });

  test('counts what is refused before it comes to an operation, and has no series for what a client makes up', async () => {
    const { url, account, clientFor } = await start();
    const client = await account({ requestsPerHour: 2 });
    const stranger = clientFor('cs_nobody');
    await stranger.rest('GET', '/conversations');
    await stranger.graphql('{ account { id } }');
    for (const path of ['/a', '/b', '/v1x', '/graphql/x']) await ask(url + path);
    await client.rest('GET', '/nothing/here');
    await client.rest('PUT' as 'POST', '/conversations');
    await client.rest('GET', '/conversations');
    expect(calls(await scrape(url))).toEqual({
      '{face="rest",operation="none",code="UNAUTHENTICATED"}': 1,
      '{face="graphql",operation="none",code="UNAUTHENTICATED"}': 1,
      '{face="page",operation="none",code="NOT_FOUND"}': 4,
      '{face="rest",operation="none",code="NOT_FOUND"}': 1,
      '{face="rest",operation="none",code="METHOD_NOT_ALLOWED"}': 1,
      '{face="rest",operation="none",code="RATE_LIMITED"}': 1,
    });
  });

  test('counts what is called on sockets, and those who follow', async () => {
    const { url, account } = await start();
    const client = await account();
    const socket = await new RawSocket(url).init(client.secret);
    onTestFinished(() => socket.socket.terminate());
    socket.subscribe('1', 'subscription { events { id } }');
    socket.subscribe('2', '{ account { id } }');
    socket.subscribe('3', '{');
    await socket.first('2', 'complete');
    await socket.first('3', 'error');
    const stream = await SseReader.open(`${url}/v1/events/stream`, { authorization: `Bearer ${client.secret}` });
    onTestFinished(() => stream.close());
    const metrics = await eventually(
      () => scrape(url),
      (each) => each.get('conversation_service_subscribers') === 2,
    );
    expect(metrics.get('conversation_service_sessions')).toBe(2);
    expect(calls(metrics)).toEqual({
      '{face="socket",operation="streamEvents",code="OK"}': 1,
      '{face="socket",operation="getAccount",code="OK"}': 1,
      '{face="socket",operation="none",code="BAD_REQUEST"}': 1,
      '{face="rest",operation="streamEvents",code="OK"}': 1,
    });
    const refused = await new RawSocket(url).opened();
    refused.send({ type: 'connection_init', payload: { authorization: 'Bearer cs_nobody' } });
    expect((await refused.closed).code).toBe(4403);
    expect(calls(await scrape(url))['{face="socket",operation="none",code="UNAUTHENTICATED"}']).toBe(1);
  });

  test('shows how writes are grouped, how late the event loop is, and the process', async () => {
    const { url, account } = await start();
    const client = await account();
    await Promise.all(Array.from({ length: 20 }, () => client.rest('POST', '/conversations', { body: {} })));
    const metrics = await scrape(url);
    expect(metrics.get('conversation_service_writer_group_size_sum')).toBeGreaterThanOrEqual(20);
    const groups = metrics.get('conversation_service_writer_group_size_count');
    expect(metrics.get('conversation_service_writer_group_duration_seconds_count')).toBe(groups);
    expect(metrics.get('conversation_service_writer_queue')).toBe(0);
    for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes', 'nodejs_heap_size_used_bytes'])
      expect(metrics.get(name), name).toBeGreaterThan(0);
    expect(metrics.get('process_start_time_seconds')).toBeLessThan(Date.now() / 1_000);
    await eventually(
      () => scrape(url),
      (each) => (each.get('nodejs_eventloop_delay_seconds_count') ?? 0) > 2,
    );
    const startedMs = performance.now();
    while (performance.now() - startedMs < 150); // nothing else is done meanwhile
    const late = await eventually(
      () => scrape(url),
      (each) => each.get('nodejs_eventloop_delay_seconds_bucket{le="+Inf"}') !== undefined,
    );
    const within100Ms = late.get('nodejs_eventloop_delay_seconds_bucket{le="0.1"}') ?? 0;
    expect(late.get('nodejs_eventloop_delay_seconds_count')).toBeGreaterThan(within100Ms);
  });

  test('shows what waits to be delivered and for how long, and how attempts end', async () => {
    let down = true;
    const scene = await openScene({ replies: () => (down ? { status: 500 } : {}) });
    const { server, client, webhook, clock } = scene;
    const { id } = await webhook();
    await startConversation(client);
    await scene.attempted(id, 1);
    const failed = await scrape(server.url);
    expect(failed.family('conversation_service_webhook_attempts_total')).toEqual({ '{result="failure"}': 1 });
    expect(failed.get('conversation_service_deliveries_pending')).toBe(1);
    expect(failed.get('conversation_service_deliveries_due')).toBe(0);
    expect(failed.get('conversation_service_deliveries_oldest_due_age_seconds')).toBe(0);

    await server.app.webhooks.stop(0); // nobody is at it any more
    clock.advance(60_000);
    const overdue = await eventually(
      () => scrape(server.url), // the count is good for a second
      (each) => each.get('conversation_service_deliveries_due') === 1,
      100,
    );
    const age = overdue.get('conversation_service_deliveries_oldest_due_age_seconds') ?? 0;
    expect(age).toBeGreaterThanOrEqual(54); // the first retry comes after 5 s ± 20 %
    expect(age).toBeLessThanOrEqual(56);
    down = false;
  });

  test('holds nothing of anybody: no id, no name, no text', async () => {
    const { url, account } = await start();
    const client = await account();
    const { body } = await client.rest('POST', '/conversations', {
      body: { subject: 'a secret', externalId: 'order-1', message: { sender: 'visitor', content: 'psst' } },
    });
    await client.rest('GET', `/conversations/${body.id}`);
    await client.graphql('query Mine { account { id } }', {}, { headers: { 'x-request-id': 'mine-1' } });
    await ask(`${url}/secret-path?token=1`);
    const { text } = await scrape(url);
    for (const word of [client.account.id, client.secret, body.id, 'secret', 'psst', 'order-1', 'Mine', 'mine-1'])
      expect(text).not.toContain(word);
  });

  test('has as many series as there are operations and codes at most, whatever is sent', async () => {
    const { url, account } = await start();
    const client = await account();
    for (let index = 0; index < 50; index++) {
      await client.rest('GET', `/${'x'.repeat(index + 1)}`);
      await client.graphql(`query Q${index} { f${index} }`);
    }
    const names = new Set([...Object.keys(operations), 'none']);
    const series = Object.keys(calls(await scrape(url)));
    expect(series.length).toBeGreaterThan(0);
    for (const labels of series) expect(names).toContain(/operation="(\w+)"/.exec(labels)?.[1]);
  });

  test('goes on without the deliveries when the storage cannot be read', async () => {
    const server = await startTestServer();
    await server.storage.close();
    const metrics = await scrape(server.url);
    expect(metrics.get('conversation_service_deliveries_pending')).toBeUndefined();
    expect(metrics.get('conversation_service_writer_queue')).toBe(0);
    await server.close();
  });
});

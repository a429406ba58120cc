import { join } from 'node:path';
import Database from 'better-sqlite3';
import postgres from 'postgres';
import { describe, expect, onTestFinished } from 'vitest';
import { minuteMs, minuteOf } from '../../src/domain/rate-window.ts';
import { SteadyClock } from '../../src/domain/steady-clock.ts';
import { systemClock } from '../../src/server/clock.ts';
import { copiedTables } from '../../src/storage/copied-tables.ts';
import { type Copied, type CopyOptions, copy as copyDatabase } from '../../src/storage/copy.ts';
import { openPostgresSource, openPostgresTarget } from '../../src/storage/postgres/copy.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { openSqliteSource, openSqliteTarget } from '../../src/storage/sqlite/copy.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { clientOf, type Json } from '../support/client.ts';
import { effort, longTest as test } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { postgresServer } from '../support/postgres.ts';
import { Receiver } from '../support/receiver.ts';
import { storedAccount, storedConversation } from '../support/samples.ts';
import { eventually } from '../support/wait.ts';
import { type Ended, run, runHere, secretPattern, serve } from './program.ts';

const { database } = postgresServer();

type Kind = 'file' | 'postgres';

/** The URL of a database with nothing in it. */
async function emptyDatabase(kind: Kind): Promise<string> {
  return kind === 'postgres' ? await database() : `file:${join(temporaryFolder(), 'a.db')}`;
}

function pathOf(url: string): string {
  return url.replace(/^file:/, '');
}

function nameOf(url: string): string {
  return url.startsWith('file:') ? pathOf(url) : `${new URL(url).host}${new URL(url).pathname}`;
}

function sqlite(url: string): Database.Database {
  const connection = new Database(pathOf(url));
  onTestFinished(() => void connection.close());
  return connection;
}

function client(url: string): postgres.Sql {
  const made = postgres(url, { max: 1, onnotice: () => {} });
  onTestFinished(() => made.end());
  return made;
}

function copy(from: string, to: string, ...options: string[]): Promise<Ended> {
  return run(['copy', '--from', from, '--to', to, ...options]);
}

/** The same in this process. */
function copyHere(from: string, to: string): Promise<Ended> {
  return runHere(['copy', '--from', from, '--to', to]);
}

/** Does what the command does, without a process of its own. */
async function copied(source: string, target: string, options: CopyOptions = {}): Promise<Copied> {
  const from = source.startsWith('file:')
    ? openSqliteSource(pathOf(source), systemClock)
    : await openPostgresSource(source);
  try {
    const to = target.startsWith('file:')
      ? openSqliteTarget(pathOf(target), systemClock)
      : await openPostgresTarget(target);
    return await copyDatabase(from, to, options).finally(() => to.close());
  } finally {
    await from.close();
  }
}

/** Copies some batches of rows. */
async function copyInPart(source: string, target: string): Promise<void> {
  let batches = 0;
  const onProgress = (): void => {
    if (++batches === 4) throw new Error('enough');
  };
  await expect(copied(source, target, { onProgress })).rejects.toThrow('enough');
}

async function storageOf(url: string) {
  return url.startsWith('file:')
    ? openSqliteStorage(pathOf(url))
    : await openPostgresStorage(url, { clock: systemClock });
}

/** Stores an account with two conversations, the first of which has 300 messages. */
async function fill(url: string) {
  const storage = await storageOf(url);
  const account = await storedAccount(storage);
  const texts = Array.from({ length: 300 }, (_, index) => `parcel ${index}`);
  const [long, short] = [
    await storedConversation(storage, account.id, texts),
    await storedConversation(storage, account.id, ['hello']),
  ];
  await storage.close();
  return { account, long, short };
}

describe('everything is copied', () => {
  /** What a storage has for itself, or makes of what is copied. */
  const ofPostgres = [
    '__drizzle_migrations.*',
    'meta.*',
    'rate_clock.*',
    'accounts.key',
    'api_keys.ends_at',
    'conversations.visitor_id',
    'conversations.visitor_email',
    'conversations.assignee_id',
    'leads.comparable_email',
    'search_texts.terms',
    'analytics_histograms.bucket',
    'analytics_histograms.count',
  ];
  const ofSqlite = [
    '__drizzle_migrations.*',
    'meta.*',
    'rate_clock.*',
    'search_accounts.*',
    'search_partitions.*',
    'search_texts.account_key',
    'search_texts.indexed_terms',
    'api_keys.ends_at',
    'conversations.key',
    'conversations.visitor_id',
    'conversations.visitor_email',
    'conversations.folded_visitor_email',
    'conversations.assignee_id',
    'leads.folded_email',
    'leads.comparable_email',
    'events.data_version',
    'rate_windows.added',
    'webhooks.key',
    'deliveries.key',
  ];
  /** Ids that SQLite has by its short keys. */
  const byKey: Record<string, string> = {
    conversation_key: 'conversation_id',
    webhook_key: 'webhook_id',
    delivery_key: 'delivery_id',
  };

  function uncopied(places: readonly string[], own: readonly string[]): string[] {
    const all = copiedTables.flatMap(({ sqlName, columns }) =>
      columns.map((column) => `${sqlName}.${column.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`),
    );
    return places.filter((place) => {
      const [table, column = ''] = place.split('.');
      const copiedAs = `${table}.${byKey[column] ?? column}`;
      return !all.includes(copiedAs) && !own.includes(place) && !own.includes(`${table}.*`);
    });
  }

  test('each table and column that either storage has', async () => {
    const inPostgres = await client(await database())<{ place: string }[]>`
      SELECT table_name || '.' || column_name AS place FROM information_schema.columns WHERE table_schema = 'public'`;
    expect(inPostgres.length).toBeGreaterThan(150);
    const path = join(temporaryFolder(), 'a.db');
    await openSqliteStorage(path).close();
    const inSqlite = sqlite(path)
      .prepare<[], { place: string }>(
        `SELECT tables.name || '.' || columns.name AS place
          FROM sqlite_schema AS tables JOIN pragma_table_xinfo(tables.name) AS columns
          WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite%' AND tables.name NOT GLOB 'search_[wv]o*'`,
      )
      .all();
    expect(inSqlite.length).toBeGreaterThan(150);
    // Whoever adds a column to both storages has nothing to do here; to one alone, it is to be converted in `copy.ts`.
    expect(
      uncopied(
        inPostgres.map(({ place }) => place),
        ofPostgres,
      ),
    ).toEqual([]);
    expect(
      uncopied(
        inSqlite.map(({ place }) => place),
        ofSqlite,
      ),
    ).toEqual([]);
  });

  interface Column {
    readonly table: string;
    readonly column: string;
    readonly type: string;
    readonly isNullable: boolean;
  }

  const references: Record<string, (number: number) => string> = {
    account_id: (number) => `acct_${number % 2}`,
    conversation_id: (number) => `conv_${number}`,
    delivery_id: (number) => `dlv_${number}`,
    webhook_id: (number) => `whk_${number}`,
    key_id: (number) => `key_${number}`,
  };
  const ids: Record<string, string> = {
    accounts: 'acct',
    conversations: 'conv',
    webhooks: 'whk',
    deliveries: 'dlv',
    api_keys: 'key',
  };

  /** A value for each column, in each row another; null in some rows where that may be. */
  function sampleOf({ table, column, type, isNullable }: Column, number: number): unknown {
    if (isNullable && number >= 4) return null;
    if (column === 'id') return `${ids[table] ?? 'id'}_${number}`;
    if (table === 'rate_clock') return column === 'key' ? 1 : number;
    if (column === 'visitor' || column === 'assignee') return `{"id": "${column}-${number}", "email":"Ä${number}@x.y"}`;
    if (column === 'name' && table === 'analytics_histograms') return 'resolutions';
    if (references[column] !== undefined) return references[column](number);
    if (type === 'boolean') return number % 2 === 0;
    if (type === 'bytea') return Buffer.from([0, 255, number]);
    if (type === 'json') return `{"number": ${number}.0, "b": "\\u0000\\ud800", "a" : [true]}`;
    if (type === 'tsvector') return '';
    return type === 'text' ? `"${column}"\\\n{ä}\u{1f600} ${number}` : number + 1;
  }

  test('each value, from PostgreSQL to SQLite, to another file, and back', async () => {
    const source = await database();
    await (await storageOf(source)).close();
    const db = client(source);
    const columns = await db<Column[]>`
      SELECT table_name AS table, column_name AS column, data_type AS type, is_nullable = 'YES' AS "isNullable"
      FROM information_schema.columns
      WHERE table_schema = 'public' AND is_generated = 'NEVER' AND is_identity = 'NO'
        AND table_name NOT IN ('__drizzle_migrations', 'meta', 'rate_clock') ORDER BY ordinal_position`;
    const tables = Map.groupBy(columns, ({ table }) => table);
    expect([...tables.keys()].sort()).toEqual(copiedTables.map(({ sqlName }) => sqlName).sort());
    for (const { sqlName } of copiedTables) {
      const own = tables.get(sqlName) ?? [];
      const names = own.map(({ column }) => column).join(', ');
      // Two accounts, and eight of everything else.
      for (let number = 0; number < (sqlName === 'accounts' ? 2 : 8); number++) {
        if (sqlName === 'account_totals' && number >= 2) break;
        const values = own.map((column) => sampleOf(column, number));
        const places = own.map((_, index) => `$${index + 1}`).join(', ');
        await db.unsafe(`INSERT INTO ${sqlName} (${names}) VALUES (${places})`, values as never[]);
      }
    }
    // What the storage makes of others; and that a conversation which is being erased has no row of its own.
    await db`UPDATE conversations SET visitor_id = visitor ->> 'id', assignee_id = assignee ->> 'id',
      visitor_email = lower(visitor ->> 'email')`;
    await db`UPDATE leads SET email = upper(email), comparable_email = lower(email)`;
    await db`DELETE FROM erasing WHERE conversation_id NOT IN ('conv_6', 'conv_7')`;
    await db`DELETE FROM conversations WHERE id IN ('conv_6', 'conv_7')`;
    await db`UPDATE search_texts SET sequence = 0 WHERE conversation_id = 'conv_5'`;

    const [file, other, target] = [await emptyDatabase('file'), await emptyDatabase('file'), await database()];
    const { rows, tables: counts } = await copied(source, file);
    expect(Object.values(counts as Record<string, number>).every((count) => count > 0)).toBe(true);
    expect(await copied(file, other)).toMatchObject({ rows, tables: counts });
    expect(await copied(other, target)).toMatchObject({ rows, tables: counts });
    const there = client(target);
    for (const { sqlName } of copiedTables) {
      const all = async (from: postgres.Sql) => {
        const found = await from.unsafe(`SELECT to_json(${sqlName}.*)::text AS row FROM ${sqlName}`);
        // The account's short name in the index, and the terms that begin with it, are each database's own.
        return found.map(({ row }) => String(row).replace(/,"(key|terms)":("[^"]*"|\d+)/, '')).sort();
      };
      expect(await all(there), sqlName).toEqual(await all(db));
    }
    const facts = (from: postgres.Sql) => from`SELECT name, value FROM meta WHERE name NOT LIKE '%epoch' ORDER BY name`;
    expect([...(await facts(there))]).toEqual([...(await facts(db))]);
  });

  test('texts that wait for being indexed', async () => {
    const [file, target] = [await emptyDatabase('file'), await database()];
    await fill(file);
    const source = sqlite(file);
    expect(source.prepare('SELECT count(*) FROM search_texts WHERE indexed_terms IS NULL').pluck().get()).not.toBe(0);
    source.close();
    await copied(file, target);
    const [found] = await client(target)`SELECT count(*)::integer AS count FROM search_texts
      WHERE terms @@ (SELECT ('''' || key || ':parcel''')::tsquery FROM accounts)`;
    expect(found?.['count']).toBe(300);
  });
});

describe('the limiter’s clock', () => {
  const hourMs = 60 * minuteMs;

  /** A file whose clock differs from the time of day, with what an account has spent by it: in which minutes, how much. */
  async function fileWithClock(byMs: number, spent: (minute: number) => Record<number, number>) {
    const file = await emptyDatabase('file');
    const { account } = await fill(file);
    const source = sqlite(file);
    const [wallMs, uptimeMs] = [systemClock.now(), systemClock.uptimeMs()];
    source
      .prepare('INSERT INTO rate_clock VALUES (1, ?, ?, ?, ?)')
      .run(wallMs + byMs, wallMs, uptimeMs, systemClock.boot);
    const add = source.prepare('INSERT INTO rate_windows (account_id, minute, count) VALUES (?, ?, ?)');
    const minute = minuteOf(wallMs + byMs);
    for (const [at, count] of Object.entries(spent(minute))) add.run(account.id, Number(at), count);
    source.close();
    return { file, account, minute };
  }

  test.each([
    ['behind', -2 * hourMs],
    ['ahead', 2 * hourMs],
  ])('of a file that is %s does not let anybody send more than the limit', async (_, byMs) => {
    const { file, account } = await fileWithClock(byMs, (minute) => ({ [minute]: 70, [minute - 61]: 7 }));
    const target = await database();
    await copied(file, target);
    const storage = await storageOf(target);
    onTestFinished(() => storage.close());
    const atMs = (await storage.read.rateWindows.clock())?.atMs ?? 0;
    const windows = await storage.read.rateWindows.since(account.id, minuteOf(atMs) - 59);
    expect(windows.map(({ count }) => count)).toEqual([70]);
    // And back: the file goes on from the database's clock.
    await storage.close();
    const back = await emptyDatabase('file');
    await copied(target, back);
    const again = await storageOf(back);
    onTestFinished(() => again.close());
    expect(await again.read.rateWindows.since(account.id, 0)).toHaveLength(2);
    const clock = new SteadyClock(systemClock).goOnFrom((await again.read.rateWindows.clock()) ?? undefined);
    expect(clock.atMs).toBeGreaterThanOrEqual(atMs);
  });

  test.each([
    ['behind', 'a file', 'file', -2.51 * hourMs],
    ['ahead', 'a file', 'file', 2.51 * hourMs],
    ['behind', 'PostgreSQL', 'postgres', -2.51 * hourMs],
    ['ahead', 'PostgreSQL', 'postgres', 2.51 * hourMs],
  ] as const)('of a file that is %s lets what was spent leave the window in time in %s', async (_, __, to, byMs) => {
    const { file, account, minute: spentIn } = await fileWithClock(byMs, (minute) => ({ [minute]: 70 }));
    const target = await emptyDatabase(to);
    await copied(file, target);
    const storage = await storageOf(target);
    onTestFinished(() => storage.close());
    const [window] = await storage.read.rateWindows.since(account.id, 0);
    const kept = await storage.read.rateWindows.clock();
    const nowMs = systemClock.now();
    const { atMs } = new SteadyClock(systemClock).goOnFrom(kept);
    const minutesAgo = minuteOf(nowMs + byMs) - spentIn;
    expect(minuteOf(atMs) - (window?.minute ?? 0)).toBeLessThanOrEqual(minutesAgo);
    expect(minuteOf(atMs) - (window?.minute ?? 0)).toBeGreaterThanOrEqual(minutesAgo - 1);
    // That of PostgreSQL would stand still where it is ahead of the database's.
    if (to === 'postgres') expect(kept?.atMs).toBeLessThan(nowMs + 1_000);
  });
});

const production = { NODE_ENV: 'production', WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true' };

async function serveOn(url: string) {
  return await serve('', { ...production, DATABASE_URL: url });
}

const toPostgres = ['file', 'postgres'] as const;
const toFile = ['postgres', 'file'] as const;

describe.each(effort([toPostgres], [toPostgres, toFile]))('from %s to %s', (from, to) => {
  test('clients notice nothing: they go on with keys, tokens, cursors, events, webhooks and limits', async () => {
    const [source, target] = [await emptyDatabase(from), await emptyDatabase(to)];
    const made = await run(['account', 'create', '--name', 'A', '--plan', 'pro'], {
      environment: { DATABASE_URL: source },
    });
    const [secret = ''] = made.stdout.match(secretPattern) ?? [];
    const receiver = await Receiver.open({ now: () => performance.timeOrigin + performance.now() });
    const first = await serveOn(source);
    const before = clientOf(first.url, secret);
    const { body: webhook } = await before.rest('POST', '/webhooks', { body: { url: `${receiver.url}/hooks` } });
    receiver.trust('/hooks', webhook.secret);
    const created: Json[] = [];
    for (const name of ['Ada', 'Bert', 'Cleo', 'Dora', 'Emil']) {
      const body = {
        subject: `parcel of ${name}`,
        visitor: { id: name, name, email: `ÄDA.${name}@Example.com` },
        tags: ['new', name],
        metadata: { name },
        message: { sender: 'visitor', content: `Where is my parcel? ${name}` },
      };
      const headers = { 'Idempotency-Key': `"${name}"` };
      created.push((await before.rest('POST', '/conversations', { body, headers })).body);
    }
    const [{ id }] = created as [Json];
    await before.rest('POST', `/conversations/${id}/messages`, { body: { sender: 'agent', content: 'On its way.' } });
    await before.rest('PUT', `/conversations/${id}/read-positions/agent-1`, { body: { sequence: 1 } });
    await before.rest('POST', '/leads', { body: { conversationId: id, email: 'Ä@b.cd', name: 'Ada' } });
    await before.rest('PATCH', `/conversations/${created[1].id}`, { body: { status: 'closed' } });
    const { body: token } = await before.rest('POST', '/tokens', {
      body: { scopes: ['conversations:read'], visitor: { id: 'Ada' } },
    });
    await eventually(
      async () => (await before.rest('GET', `/webhooks/${webhook.id}/deliveries?limit=100`)).body.data,
      (deliveries) => deliveries.length > 5 && deliveries.every((each: Json) => each.status === 'succeeded'),
    );

    const lists = [
      '/conversations?limit=2',
      '/conversations?limit=2&sort=-lastActivityAt',
      '/conversations?limit=1&visitorEmail=äda.ada@example.com',
      '/conversations?limit=1&unreadBy=agent-1',
      `/conversations/${id}/messages?limit=1`,
      '/search?q=parcel&limit=2',
      '/events?limit=3',
      '/leads',
      `/webhooks/${webhook.id}/deliveries?limit=2`,
      `/conversations/${id}`,
      '/analytics?from=2026-01-01T00:00:00Z&to=2026-12-31T00:00:00Z',
    ];
    const readAll = async (client: ReturnType<typeof clientOf>): Promise<Json> => {
      const read: Json[] = [];
      for (const path of lists) {
        const { status, body } = await client.rest('GET', path);
        expect({ path, status }).toEqual({ path, status: 200 });
        read.push({ path, body });
        const cursor = body.pagination?.nextCursor;
        if (path.includes('limit=2')) expect(cursor, path).toEqual(expect.any(String));
        if (cursor != null) read.push((await client.rest('GET', `${path}&after=${cursor}`)).body);
      }
      return read;
    };
    const asBefore = await readAll(before);
    const { body: page } = await before.rest('GET', '/conversations?limit=2');
    const { body: log } = await before.rest('GET', '/events?limit=100');
    const { headers } = await before.rest('GET', '/account');
    first.signal('SIGTERM');
    await first.ended;

    const { code, stdout, stderr } = await copy(source, target, '--json');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject({
      ...{ from: nameOf(source), to: nameOf(target), continued: false, accounts: 1 },
      tables: { conversations: 5, messages: 6, webhooks: 1 },
    });

    const second = await serveOn(target);
    const after = clientOf(second.url, secret);
    const remaining = Number((await after.rest('GET', '/account')).headers['x-ratelimit-remaining']);
    expect(remaining).toBe(Number(headers['x-ratelimit-remaining']) - 1);
    expect(await readAll(after)).toEqual(asBefore);
    const { body: next } = await after.rest('GET', `/conversations?limit=2&after=${page.pagination.nextCursor}`);
    expect(next.data.map((each: Json) => each.id)).toEqual([created[2].id, created[1].id]);
    expect((await clientOf(second.url, token.token).rest('GET', '/conversations')).body.data).toHaveLength(1);
    const again = await after.rest('POST', '/conversations', {
      body: {
        subject: 'parcel of Emil',
        visitor: { id: 'Emil', name: 'Emil', email: 'ÄDA.Emil@Example.com' },
        tags: ['new', 'Emil'],
        metadata: { name: 'Emil' },
        message: { sender: 'visitor', content: 'Where is my parcel? Emil' },
      },
      headers: { 'Idempotency-Key': '"Emil"' },
    });
    expect(again).toMatchObject({ body: created[4], headers: { 'idempotent-replayed': 'true' } });

    const sent = receiver.to('/hooks').length;
    const { body: message } = await after.rest('POST', `/conversations/${id}/messages`, {
      body: { sender: 'visitor', content: 'Thanks for the zebra.' },
    });
    const { body: more } = await after.rest('GET', `/events?after=${log.data.at(-1).cursor}`);
    expect(more.data.map((event: Json) => event.data.message?.id)).toContain(message.id);
    expect(more.data.length).toBeLessThanOrEqual(2);
    await eventually(
      async () => receiver.to('/hooks').slice(sent),
      (received) => received.some(({ event }) => event.data.message?.id === message.id),
    );
    const { body: found } = await after.rest('GET', '/search?q=zebra');
    expect(found.data.map((result: Json) => result.message.id)).toEqual([message.id]);
    second.signal('SIGTERM');
    await second.ended;
  }, 60_000);

  test('a copy that was interrupted is continued, and until then no server starts on it', async () => {
    const [source, target] = [await emptyDatabase(from), await emptyDatabase(to)];
    await fill(source);
    await copyInPart(source, target);
    const refused = await runHere(['serve'], { ...production, PORT: '0', DATABASE_URL: target });
    expect(refused.code).toBe(1);
    expect(refused.stdout + refused.stderr).toContain(
      `The database ${nameOf(target)} cannot be opened: a copy into it is unfinished: the same \`copy\` again continues it.`,
    );
    const { code, stdout, stderr } = await copy(source, target);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^Copied \S+ to \S+ and verified it: 1 account, [\d,]+ rows, in [\d.]+ s\.\n/);
    const storage = await storageOf(target);
    expect(await storage.read.accounts.list()).toHaveLength(1);
    await storage.close();
  });

  test('a source that was changed between two parts of a copy is found', async () => {
    const [source, target] = [await emptyDatabase(from), await emptyDatabase(to)];
    const { account } = await fill(source);
    await copyInPart(source, target);
    const storage = await storageOf(source);
    await storage.write(async (tx) => tx.accounts.update({ ...account, name: 'Renamed' }));
    await storage.close();
    const { code, stdout, stderr } = await copy(source, target);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toBe(
      `The copy is not the same as its source, so it cannot be used: in the table accounts, ${account.id} has other contents there than in the copy. One of the two was changed meanwhile: copy again into an empty database.\n`,
    );
    await expect(storageOf(target)).rejects.toThrow(/unfinished/);
  });

  test('an erasure that is under way goes on in the copy', async () => {
    const [source, target] = [await emptyDatabase(from), await emptyDatabase(to)];
    const { account, long, short } = await fill(source);
    const before = await storageOf(source);
    await before.write(async (tx) => tx.conversations.erase(account.id, long));
    expect(await before.read.conversations.erasing()).toEqual([{ accountId: account.id, id: long.id }]);
    await before.close();
    expect((await copied(source, target)).tables['messages']).toBeGreaterThan(100);
    const after = await storageOf(target);
    onTestFinished(() => after.close());
    expect(await after.read.conversations.find(account.id, long.id)).toBeUndefined();
    let steps = 0;
    for (let isDone = false; !isDone; steps++) {
      isDone = await after.write(async (tx) => tx.conversations.eraseMore(account.id, long.id));
    }
    expect(steps).toBeGreaterThan(1);
    expect(await after.read.conversations.erasing()).toEqual([]);
    await after.close();
    const left = await copied(target, await emptyDatabase('file'));
    expect(left.tables).toMatchObject({ conversations: 1, messages: 1, search_texts: 2, erasing: 0 });
    expect(short.messageCount).toBe(1);
  });

  test('an unfinished copy of another database is not continued', async () => {
    const [one, other, target] = [await emptyDatabase(from), await emptyDatabase(from), await emptyDatabase(to)];
    await fill(one);
    await fill(other);
    await copyInPart(one, target);
    expect(await copy(other, target)).toEqual({
      code: 1,
      stdout: '',
      stderr: 'The target holds an unfinished copy of another database: copy into an empty one.\n',
    });
    await copied(one, target);
  });

  test('is refused while a server uses either, and where the target is not empty', async () => {
    const [source, target] = [await emptyDatabase(from), await emptyDatabase(to)];
    await fill(source);
    for (const used of [source, target]) {
      const storage = await storageOf(used); // as a server does
      await storage.check();
      const { code, stdout, stderr } = await copy(source, target);
      await storage.close();
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(/^The database \S+ cannot be opened: it is in use; stop [^\n]+\.\n$/);
      expect(stderr).toContain(`The database ${nameOf(used)} `);
    }
    await fill(target);
    const { code, stderr } = await copy(source, target);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: `The database ${nameOf(target)} cannot be opened: it holds accounts already; copy into an empty database.\n`,
    });
  });
});

test('what was being written to PostgreSQL when the copy began is in it', async () => {
  const [source, target] = [await emptyDatabase('postgres'), await emptyDatabase('postgres')];
  await fill(source);
  const [writing, looking] = [client(source), client(source)];
  const copying = await writing.begin(async (tx) => {
    await tx`UPDATE accounts SET name = 'Renamed'`;
    const begun = copied(source, target);
    await eventually(
      async () => await looking`SELECT 1 FROM pg_locks WHERE NOT granted`,
      (waiting) => waiting.length > 0,
    );
    return { begun };
  });
  await copying.begun;
  expect([...(await client(target)`SELECT name FROM accounts`)]).toEqual([{ name: 'Renamed' }]);
});

test('a connection that is lost is told with what to do, and that does it', async () => {
  const [source, target] = [await emptyDatabase('file'), await emptyDatabase('postgres')];
  await fill(source);
  const [holding, looking] = [client(target), client(target)];
  const ended = await holding.begin(async (tx) => {
    await tx`LOCK TABLE messages IN SHARE MODE`;
    const copying = copy(source, target);
    await eventually(
      async () => await looking`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted`,
      (cut) => cut.length > 0,
    );
    return await copying;
  });
  expect(ended).toMatchObject({ code: 1, stdout: '' });
  expect(ended.stderr).toMatch(/^The copy was interrupted: [^\n]+\. The same command continues it\.\n$/);
  expect(await copied(source, target)).toMatchObject({ continued: true, tables: { messages: 301 } });
});

test('cursors of a copy expire when PostgreSQL has lost what came after it, as when a dump is restored', async () => {
  const [source, target] = [await emptyDatabase('file'), await emptyDatabase('postgres')];
  await fill(source);
  await copied(source, target);
  const epochOf = async (url: string): Promise<string> => {
    const storage = await storageOf(url);
    return await Promise.resolve(storage.read.events.epoch()).finally(() => storage.close());
  };
  const epoch = await epochOf(source);
  expect(await epochOf(target)).toBe(epoch);
  await client(target).unsafe(
    'ALTER TABLE meta RENAME TO old; CREATE TABLE meta (LIKE old INCLUDING ALL); INSERT INTO meta SELECT * FROM old',
  );
  expect(await epochOf(target)).not.toBe(epoch);
});

test('without --from, the database is copied that DATABASE_URL names', async () => {
  const [source, target] = [await emptyDatabase('file'), await emptyDatabase('file')];
  await fill(source);
  const { code, stdout, stderr } = await runHere(['copy', '--to', target, '--json'], { DATABASE_URL: source });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(JSON.parse(stdout)).toMatchObject({ from: pathOf(source), to: pathOf(target), accounts: 1 });
});

describe('a source that is not ready', () => {
  test('of an earlier version is to be migrated first', async () => {
    const file = await emptyDatabase('file');
    await fill(file);
    const connection = sqlite(file);
    connection.exec('DELETE FROM __drizzle_migrations WHERE id > 1');
    connection.close();
    const { code, stderr } = await copyHere(file, await emptyDatabase('file'));
    expect(code).toBe(1);
    expect(stderr).toContain('it is of an earlier version; run `migrate` on it first');
  });

  test('that is another kind of database, or is not there, is refused', async () => {
    const empty = await emptyDatabase('file');
    expect(await copyHere(empty, await emptyDatabase('file'))).toEqual({
      code: 1,
      stdout: '',
      stderr: `There is no database ${pathOf(empty)}.\n`,
    });
    const other = await emptyDatabase('file');
    sqlite(other).exec('CREATE TABLE things (id)');
    const { stderr } = await copyHere(other, await emptyDatabase('file'));
    expect(stderr).toBe(`The database ${pathOf(other)} cannot be opened: it is not a database of this program.\n`);
    expect((await copyHere(other, other)).stderr).toBe('A database cannot be copied to itself.\n');
  });
});

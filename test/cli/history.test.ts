import { randomFillSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { History, type HistoryOptions } from '../../src/cli/seed/history.ts';
import { lifeOf } from '../../src/cli/seed/life.ts';
import { Random } from '../../src/cli/seed/random.ts';
import { longestStory } from '../../src/cli/seed/story.ts';
import { arrivals, dayMs, hourMs } from '../../src/cli/seed/timeline.ts';
import { nothing, withMore } from '../../src/cli/seed/written.ts';
import type { Account } from '../../src/domain/accounts.ts';
import { addMonths } from '../../src/domain/calendar.ts';
import { type Caller, scopes } from '../../src/domain/caller.ts';
import { createConversation, deleteConversation, updateConversation } from '../../src/domain/conversations.ts';
import { createIds } from '../../src/domain/ids.ts';
import { captureLead } from '../../src/domain/leads.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { BulkWriter } from '../../src/storage/sqlite/bulk.ts';
import { TestClock } from '../support/clock.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { expectSound, type Row, rowsOf, withoutIds } from './rows.ts';

// What the command `seed` writes, held against what the operations write.

let server: TestServer;
let writer: BulkWriter;
beforeAll(async () => {
  server = await startTestServer();
  writer = new BulkWriter(server.databasePath, { busyTimeoutMs: 5_000 });
});
afterAll(async () => {
  await writer.close();
  await server.close();
});

const toMs = Date.parse('2026-11-21T06:12:00.000Z');
const life = { conversations: 20, fromMs: toMs - 20 * dayMs, toMs, seed: 1 };
const newIds = () => createIds((target) => randomFillSync(target));
const operatorOf = (account: Account): Caller => ({
  account,
  keyId: 'test',
  credential: 'key',
  scopes: new Set(scopes),
});

/** Writes a history; after each part something else may happen. */
async function write(options: Partial<HistoryOptions>, between?: (account: Account, history: History) => unknown) {
  const { account } = await server.account();
  const history = new History({ ...life, accountId: account.id, ids: newIds(), eventsFromMs: 0, ...options });
  let written = nothing;
  for (let rows = history.next(); rows !== undefined; rows = history.next()) {
    await writer.write(rows);
    written = withMore(written, rows);
    await between?.(account, history);
  }
  return { accountId: account.id, rows: rowsOf(server.databasePath, account.id), written };
}

/** Does the same by calling the operations, each at its time, as requests would. */
async function act(options: typeof life): Promise<string> {
  const { account } = await server.account();
  const caller = operatorOf(account);
  const clock = new TestClock();
  const world = { ...server.app.world, clock, ids: newIds() };
  const stories = Array.from(lifeOf(options), ({ steps }) => ({ steps: [...steps], id: null as string | null }));
  const all = stories.flatMap((story) => story.steps.map((step) => ({ ...step, story })));
  for (const { atMs, action, story } of all.toSorted((one, other) => one.atMs - other.atMs)) {
    clock.nowMs = atMs;
    if (action.kind === 'start') {
      story.id = (await createConversation.execute(world, caller, action.input)).conversation.id;
    } else if (action.kind === 'lead') {
      await captureLead.execute(world, caller, { ...action.input, conversationId: story.id });
    } else if (action.kind === 'message') {
      await sendMessage.execute(world, caller, { ...action.draft, conversationId: story.id });
    } else {
      await updateConversation.execute(world, caller, { ...action.changes, id: story.id });
    }
  }
  return account.id;
}

describe('a history', () => {
  test('is row for row what the operations would have written, in every table', async () => {
    for (const seed of [1, 2]) {
      const [{ rows, written }, acted] = [await write({ seed, atOnce: 7 }), await act({ ...life, seed })];
      expect(withoutIds(rows)).toEqual(withoutIds(rowsOf(server.databasePath, acted)));
      expect(written).toEqual({
        conversations: 20,
        messages: rows['messages']?.length,
        leads: rows['leads']?.length,
        events: rows['events']?.length,
      });
      expect(rows['events']?.length).toBeGreaterThan(50);
      expect(rows['leads']?.length).toBeGreaterThan(2);
    }
  });

  test('is the same for the same seed, however it is cut into parts, and another for another', async () => {
    const [one, other] = [await write({ conversations: 100 }), await write({ conversations: 100, atOnce: 1 })];
    expect(withoutIds(other.rows)).toEqual(withoutIds(one.rows));
    const { rows } = await write({ conversations: 100, seed: 2 });
    expect(withoutIds(rows)).not.toEqual(withoutIds(one.rows));
  });

  test('has the events that are young enough for the log, in the order of time, and counts the others too', async () => {
    const eventsFromMs = toMs - 7 * dayMs;
    const { rows, accountId } = await write({ conversations: 100, atOnce: 10, eventsFromMs });
    const all = await write({ conversations: 100 });
    expectSound(rowsOf(server.databasePath, accountId));
    const log = (rows['events'] as Row[]).map(({ type, timestamp }) => [type, Number(timestamp)] as const);
    const young = (all.rows['events'] as Row[])
      .map(({ type, timestamp }) => [type, Number(timestamp)] as const)
      .filter(([, at]) => at >= eventsFromMs);
    expect(log).toEqual(young.toSorted(([, one], [, other]) => one - other));
    expect(young.length).toBeLessThan(all.written.events / 2);
    expect(rows['counters']).toEqual((all.rows['counters'] as Row[]).map((row) => ({ ...row, account_id: accountId })));
  });

  test('leaves to others what they change or erase of it meanwhile', async () => {
    const seen = new Set<string>();
    const did = { erase: 0, capture: 0, send: 0 };
    let erasedAtOnce = 0;
    const { accountId, written } = await write({ conversations: 200, atOnce: 40 }, async (account) => {
      const { world } = server.app;
      const caller = operatorOf(account);
      const { conversations = [], events = [] } = rowsOf(server.databasePath, account.id);
      const fresh = conversations.map(({ id }) => String(id)).filter((id) => !seen.has(id));
      for (const [place, conversationId] of fresh.slice(-9).entries()) {
        if (place % 3 === 0) {
          await deleteConversation.execute(world, caller, { id: conversationId });
          erasedAtOnce += events.filter((event) => event['conversation_id'] === conversationId).length;
          did.erase++;
        } else if (place % 3 === 1) {
          await captureLead.execute(world, caller, { conversationId, phone: '1' });
          did.capture++;
        } else {
          await sendMessage.execute(world, caller, { conversationId, sender: 'visitor', content: 'Mine.' });
          did.send++;
        }
      }
      for (const id of fresh) seen.add(id);
    });
    expectSound(rowsOf(server.databasePath, accountId));
    const { conversations, counters, events } = rowsOf(server.databasePath, accountId);
    expect(conversations).toHaveLength(200 - did.erase);
    expect(events).toHaveLength(written.events + did.capture + did.send);
    const started = (counters as Row[]).reduce((sum, row) => sum + Number(row['conversations_started']), 0);
    expect(started, 'what was erased has happened').toBe(200);
    const there = new Set(conversations?.map(({ id }) => id));
    const erased = (events as Row[]).filter(({ conversation_id: id }) => id !== null && !there.has(id));
    expect(new Set(erased.map(({ data }) => data))).toEqual(new Set(['{"erased":true}']));
    expect(erased.length, 'some events came after the erasure of what they tell of').toBeGreaterThan(erasedAtOnce + 10);
  });

  test('that is ended early has all the events of the conversations that it has', async () => {
    const { accountId, rows, written } = await write({ conversations: 300, atOnce: 10 }, (_, history) => history.end());
    expectSound(rowsOf(server.databasePath, accountId));
    expect(written.conversations).toBe(10);
    const started = (rows['events'] as Row[]).filter(({ type }) => type === 'conversation.started');
    expect(started).toHaveLength(10);
    const closed = (rows['conversations'] as Row[]).filter(({ status }) => status === 'closed');
    const closings = new Set(
      (rows['events'] as Row[])
        .filter(({ type }) => type === 'conversation.closed')
        .map(({ conversation_id }) => conversation_id),
    );
    expect(closed.length).toBeGreaterThan(0);
    for (const { id } of closed) expect(closings).toContain(id);
  });

  test('sounds like people: everything is filled in, of many words, and of a believable length', async () => {
    const fromMs = toMs - 60 * dayMs;
    const { rows } = await write({ conversations: 1_000, fromMs, eventsFromMs: toMs });
    const texts = (rows['messages'] as Row[]).map(({ content }) => String(content));
    const wrong = texts.filter(
      (text) => /[{}]|undefined|null|NaN|^\s|\s$| {2}/.test(text) || /^[a-z](?!\S*@)/.test(text),
    );
    expect(wrong).toEqual([]);
    expect(new Set(texts).size).toBeGreaterThan(1_000);
    const conversations = rows['conversations'] as Row[];
    const lengths = conversations.map(({ message_count }) => Number(message_count));
    expect(Math.max(...lengths)).toBeLessThanOrEqual(longestStory);
    expect(Math.max(...lengths)).toBeGreaterThan(30);
    expect(texts.length / 1_000).toBeGreaterThan(5);
    expect(texts.length / 1_000).toBeLessThan(7);
    const old = conversations.filter(({ created_at }) => Number(created_at) < toMs - 14 * dayMs);
    expect(old.filter(({ status }) => status === 'closed').length / old.length).toBeGreaterThan(0.9);
    const open = conversations.filter(({ status }) => status !== 'closed');
    expect(open.filter(({ created_at }) => Number(created_at) > toMs - 3 * dayMs).length).toBeGreaterThan(2);
    expect(conversations.filter(({ reopened_at }) => reopened_at !== null).length).toBeGreaterThan(20);
    expect(rows['leads']?.length).toBeGreaterThan(50);
    expect(JSON.stringify(rows['leads'])).not.toMatch(/@(?!example\.(com|net|org))/);
  });
});

describe('conversations begin', () => {
  const starts = (count: number, fromMs: number, toMs: number) => [...arrivals(new Random(7, 0), count, fromMs, toMs)];

  test.each([1, 2, 1_000])('exactly as many as are wanted (%i), in order, within the time', (count) => {
    for (const lengthMs of [1, hourMs / 2, dayMs, 40 * dayMs]) {
      const times = starts(count, toMs - lengthMs, toMs);
      expect(times).toHaveLength(count);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times[0]).toBeGreaterThanOrEqual(toMs - lengthMs);
      expect(times.at(-1)).toBeLessThan(toMs);
      expect(times.every(Number.isInteger)).toBe(true);
    }
  });

  test('by the rhythm of days and weeks', () => {
    const times = starts(20_000, toMs - 84 * dayMs, toMs).map((atMs) => new Date(atMs));
    const on = (day: number) => times.filter((at) => at.getUTCDay() === day).length;
    const at = (hour: number) => times.filter((time) => time.getUTCHours() === hour).length;
    expect(on(1)).toBeGreaterThan(2 * on(0));
    expect(on(1)).toBeGreaterThan(1.1 * on(3));
    expect(at(10)).toBeGreaterThan(10 * at(3));
  });

  test('so many months ago, also where a month is shorter', () => {
    const earlier = (time: string, months: number) => new Date(addMonths(Date.parse(time), -months)).toISOString();
    expect(earlier('2026-11-21T06:12:00.000Z', 3)).toBe('2026-08-21T06:12:00.000Z');
    expect(earlier('2026-03-31T23:00:00.000Z', 1)).toBe('2026-02-28T23:00:00.000Z');
    expect(earlier('2026-01-31T00:00:00.000Z', 14)).toBe('2024-11-30T00:00:00.000Z');
  });
});

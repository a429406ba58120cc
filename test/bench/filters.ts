import { cpSync } from 'node:fs';
import { createAccount } from '../../src/domain/accounts.ts';
import { newConversation } from '../../src/domain/conversation-changes.ts';
import type { StoredConversation } from '../../src/domain/conversation-record.ts';
import type { Lead } from '../../src/domain/leads.ts';
import { indexTexts } from '../../src/domain/search.ts';
import { timestamp } from '../../src/domain/time.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { portsOn } from './data.ts';
import type { CostResult } from './growth.ts';
import { ours, remove, serve } from './processes.ts';
import { median } from './throughput.ts';

// How long filtered lists of many conversations and leads take, and whether anybody else waits for them.

const perWrite = 200;
const dayMs = 86_400_000;
const days = 90;

/** Lists that an index serves: each to take hardly longer than a plain page. */
const served: readonly string[] = [
  'status=active,pending',
  'status=active,pending&sort=-lastActivityAt',
  'assigneeId=agent-3',
  'assigneeId=agent-3&sort=-lastActivityAt',
  'assigneeId=agent-3&status=active,pending&sort=-lastActivityAt',
  'visitorId=visitor-7',
  'visitorId=visitor-7&sort=-lastActivityAt',
  'visitorEmail=Visitor-7@example.com',
  'externalId=order-7',
  'unassigned=true&status=active,pending',
  'tags=delivery&sort=-lastActivityAt',
  'tags=rare',
  'tags=rare,delivery&status=closed&sort=lastActivityAt',
  'unreadBy=reader',
  'unreadBy=reader&sort=-lastActivityAt',
  'unreadBy=reader&status=active,pending,closed&tags=delivery',
];

/** Lists that are found by testing many conversations, and counted: nobody else is to wait for them. */
const tested: readonly string[] = [
  'tags=delivery',
  'tags=delivery&unassigned=false&sort=lastActivityAt',
  'visitorId=anonymous&unassigned=true&sort=lastActivityAt&status=active',
  'assigneeId=agent-3&tags=delivery&sort=lastActivityAt',
  'updatedAfter=2020-01-01T00:00:00Z&unassigned=false&tags=delivery',
];

/** The same of leads. The conversation and the address that are common have a tenth of all of them each. */
const servedLeads: readonly string[] = [
  'email=Visitor-7@example.com',
  'email=common@example.com',
  'conversationId=common',
  'conversationId=rare',
  'conversationId=rare&email=visitor-7@example.com',
  'createdBefore=2100-01-01T00:00:00Z&createdAfter=2020-01-01T00:00:00Z',
];
const testedLeads: readonly string[] = [
  'email=common@example.com',
  'conversationId=common&email=visitor-15@example.com',
  'conversationId=common&email=common@example.com',
  'createdAfter=2020-01-01T00:00:00Z',
];

/** Filtered lists of an account with so many conversations, and requests of another account beside them. */
export async function filterTimes(path: string, conversations: number, samples: number): Promise<CostResult[]> {
  const { asking, other, endMs, ids } = await makeLists(path, conversations);
  const copy = `${path}.copy`;
  remove(copy);
  cpSync(path, copy);
  const server = await serve(ours, { path: copy });
  const get = async (secret: string, list: List, query: string): Promise<number> => {
    const named = query.replace(/(?<=conversationId=)(common|rare)/, (name) => ids[name as keyof typeof ids]);
    const url = `${server.url}/v1/${list}?limit=20&${named}`;
    const startedMs = performance.now();
    const response = await fetch(url, { headers: { authorization: `Bearer ${secret}` } });
    if (!response.ok) throw new Error(`${query} was answered with ${response.status}`);
    await response.arrayBuffer();
    return performance.now() - startedMs;
  };
  try {
    const results: CostResult[] = [];
    // Both are sent in turns, so that what else the machine does is in both.
    const toPlain = async (list: List, query: string): Promise<CostResult> => {
      const [plain, filtered]: [number[], number[]] = [[], []];
      for (let sample = -20; sample < samples; sample++) {
        const plainMs = await get(asking, list, 'total=none');
        const filteredMs = await get(asking, list, `${query}&total=none`);
        if (sample < 0) continue; // until it is compiled
        plain.push(plainMs);
        filtered.push(filteredMs);
      }
      const value = rounded(median(filtered) / median(plain));
      return { name: `${list} of ${query} to a plain page`, unit: '×', value, atMost: 1.5, raw: { plain, filtered } };
    };
    const ofLastMinute = `updatedAfter=${timestamp(endMs - 60_000)}`;
    const ofADay = `createdAfter=${timestamp(endMs - dayMs / 24)}&sort=-lastActivityAt`;
    for (const query of [...served, ofLastMinute, ofADay]) results.push(await toPlain('conversations', query));
    for (const query of servedLeads) results.push(await toPlain('leads', query));
    const neighbour: number[] = [];
    const counted = [
      ...tested.map((query) => ({ list: 'conversations', query }) as const),
      ...testedLeads.map((query) => ({ list: 'leads', query }) as const),
    ];
    for (const { list, query } of counted) {
      const times: number[] = [];
      for (let sample = 0; sample < 5; sample++) {
        let isOver = false;
        const answered = get(asking, list, query).finally(() => {
          isOver = true;
        });
        while (!isOver) neighbour.push(await get(other, 'conversations', 'total=none'));
        times.push(await answered);
      }
      results.push({
        name: `${list} of ${query}, counted`,
        unit: 'ms',
        value: rounded(median(times)),
        atMost: 10_000,
        raw: { times },
      });
    }
    const value = rounded(neighbour.toSorted((a, b) => a - b)[Math.floor(neighbour.length * 0.99)] ?? 0);
    results.push({ name: 'a list of another account beside them, p99', unit: 'ms', value, atMost: 40, raw: {} });
    return results;
  } finally {
    await server.stop();
    remove(copy);
    remove(path);
  }
}

type List = 'conversations' | 'leads';

interface Made {
  readonly asking: string;
  readonly other: string;
  readonly endMs: number;
  /** Conversations with very many leads, and with one. */
  readonly ids: Readonly<Record<'common' | 'rare', string>>;
}

/** Conversations and as many leads. */
async function makeLists(path: string, conversations: number): Promise<Made> {
  remove(path);
  const storage = openSqliteStorage(path);
  const ports = portsOn(storage);
  const create = async (name: string) =>
    await createAccount(ports, { name, plan: 'business', requestsPerHour: 1_000_000_000 });
  const [asking, other] = [await create('asking'), await create('other')];
  const endMs = Date.now();
  const ids = { common: '', rare: '' };
  for (let first = 0; first < conversations; first += perWrite) {
    await storage.write(async (tx) => {
      for (let index = first; index < Math.min(first + perWrite, conversations); index++) {
        const createdMs = endMs - Math.floor((1 - index / conversations) * days * dayMs);
        const input = { subject: null, visitor: null, externalId: null, assignee: null, tags: [], metadata: {} };
        const { conversation } = newConversation(input, { ids: ports.ids, now: createdMs });
        const facts = factsOf(index, conversations, createdMs, endMs);
        const made = { ...conversation, ...facts };
        await tx.conversations.insert(asking.account.id, made);
        if (index === 0) ids.common = made.id;
        if (index === 7) ids.rare = made.id;
        const conversationId = index % 10 === 5 ? ids.common : made.id;
        await tx.leads.insert(asking.account.id, leadOf(made, conversationId, ports.ids.next('lead', createdMs)));
        // A reader who has read a hundred thousand of a million conversations, all but ten of them to their end.
        if (index % 10 === 0) await tx.readPositions.move(asking.account.id, made, readNone);
        if (index % 1_000 === 0)
          await tx.conversations.insert(
            other.account.id,
            newConversation(input, { ids: ports.ids, now: createdMs }).conversation,
          );
      }
    });
  }
  await indexTexts(storage);
  await storage.close();
  return { asking: asking.apiKey.secret, other: other.apiKey.secret, endMs, ids };
}

const readNone = { reader: 'reader', sequence: 0, readAt: timestamp(0) };

function leadOf({ visitor, createdAt }: StoredConversation, conversationId: string, id: string): Lead {
  const email = visitor?.email ?? 'common@example.com';
  return { id, conversationId, name: 'Ada', email, phone: null, company: null, metadata: {}, createdAt };
}

/** Most are closed and were an agent's; a tenth are of visitors of whom nothing is known, the others came five times. */
function factsOf(index: number, all: number, createdMs: number, endMs: number): Partial<StoredConversation> {
  const visitor = index % 10 === 0 ? 'anonymous' : `visitor-${index % Math.ceil(all / 5)}`;
  const quietMs = createdMs + ((index * 7_919) % 3) * dayMs;
  const activeMs = quietMs > endMs ? createdMs : quietMs;
  return {
    status: index % 50 === 1 ? 'pending' : index % 25 === 1 ? 'active' : 'closed',
    subject: `Order ${index}`,
    visitor: { id: visitor, name: null, email: visitor === 'anonymous' ? null : `${visitor}@example.com` },
    externalId: index % 10 === 7 ? `order-${index}` : null,
    assignee: index % 5 === 0 || index % 1_000 === 1 ? null : { id: `agent-${index % 49}`, name: 'Grace' },
    messageCount: index % Math.ceil(all / 10) === 0 ? 1 : 0,
    tags: [...(index % 5 === 0 ? ['delivery'] : []), ...(index % 99_990 === 5 ? ['rare'] : [])],
    metadata: { orderId: index, plan: 'pro' },
    lastActivityAt: timestamp(activeMs),
    updatedAt: timestamp(index % 1_000 === 3 ? Math.min(activeMs + dayMs, endMs) : activeMs),
  };
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}

import { cpSync } from 'node:fs';
import { createAccount } from '../../src/domain/accounts.ts';
import { newConversation } from '../../src/domain/conversation-changes.ts';
import { addMessage } from '../../src/domain/messages.ts';
import { indexTexts } from '../../src/domain/search.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { portsOn } from './data.ts';
import type { CostResult } from './growth.ts';
import { ours, remove, serve } from './processes.ts';

// How long searches take among many messages, and whether anybody else waits for them.

const perConversation = 100;
const perWrite = 500;
const vocabularySize = 30_000;

/** Of each message: words by chance, few of them often, and some that are searched for. */
function* contents(count: number): Generator<string> {
  let state = 1;
  const random = (): number => {
    state = (state * 48_271) % 0x7fffffff;
    return state / 0x7fffffff;
  };
  const letters = 'etaoinshrdlucmfwypvbgk';
  const vocabulary = Array.from({ length: vocabularySize }, (_, index) => {
    const length = index < 100 ? 2 + Math.floor(random() * 4) : 3 + Math.floor(random() * 8);
    return Array.from({ length }, () => letters[Math.floor(random() ** 1.7 * letters.length)]).join('');
  });
  for (let index = 0; index < count; index++) {
    const words = Array.from(
      { length: 8 + Math.floor(random() * 24) },
      () => vocabulary[Math.floor(vocabularySize ** random()) - 1] ?? vocabulary[0],
    );
    if (random() < 0.8) words.push('shipping');
    words.push(index % 2 === 0 ? 'evening' : 'morning');
    if (index % 5_000 === 0) words.push('zebra');
    yield words.join(' ');
  }
}

const searches = {
  'a word that 80 % have': 'shipping',
  'a word that few have': 'zebra',
  'a word that none has': 'xylophone',
  'a letter that words begin with': 'e',
  'two common words, never together': 'evening morning',
} as const;

/** Searches among so many messages of one account, and requests of another account beside them. */
export async function searchTimes(path: string, messages: number, samples: number): Promise<CostResult[]> {
  const secrets = await makeMessages(path, messages);
  const copy = `${path}.copy`;
  remove(copy);
  cpSync(path, copy);
  const server = await serve(ours, { path: copy });
  try {
    const get = async (secret: string, path: string): Promise<number> => {
      const startedMs = performance.now();
      const response = await fetch(server.url + path, { headers: { authorization: `Bearer ${secret}` } });
      if (!response.ok) throw new Error(`${path} was answered with ${response.status}`);
      await response.arrayBuffer();
      return performance.now() - startedMs;
    };
    const results: CostResult[] = [];
    const neighbour: number[] = [];
    for (const [name, q] of Object.entries(searches)) {
      const times: number[] = [];
      for (let sample = -10; sample < samples; sample++) {
        const search = get(secrets.searching, `/v1/search?q=${encodeURIComponent(q)}`);
        if (sample >= 0) neighbour.push(await get(secrets.other, '/v1/conversations?limit=1'));
        const ms = await search;
        if (sample >= 0) times.push(ms);
      }
      results.push(
        { name: `search for ${name}, p50`, unit: 'ms', value: quantile(times, 0.5), atMost: 20, raw: { times } },
        { name: `search for ${name}, p99`, unit: 'ms', value: quantile(times, 0.99), atMost: 100, raw: {} },
      );
    }
    const value = quantile(neighbour, 0.99);
    results.push({ name: 'a list of another account beside searches, p99', unit: 'ms', value, atMost: 40, raw: {} });
    return results;
  } finally {
    await server.stop();
    remove(copy);
    remove(path);
  }
}

async function makeMessages(path: string, messages: number): Promise<{ searching: string; other: string }> {
  remove(path);
  const storage = openSqliteStorage(path);
  const ports = portsOn(storage);
  const create = async (name: string) =>
    await createAccount(ports, { name, plan: 'business', requestsPerHour: 10_000_000 });
  const [searching, other] = [await create('searching'), await create('other')];
  const begin = Date.now() - 90 * 86_400_000;
  const texts = contents(messages);
  for (let written = 0; written < messages; written += perWrite) {
    const now = begin + Math.floor((written / messages) * 89 * 86_400_000);
    await storage.write(async (tx) => {
      for (let index = 0; index < perWrite; index += perConversation) {
        let { conversation } = newConversation(
          { subject: null, visitor: null, externalId: null, assignee: null, tags: [], metadata: {} },
          { ids: ports.ids, now },
        );
        const own = Array.from({ length: perConversation }, () => {
          const draft = {
            content: texts.next().value as string,
            sender: 'agent' as const,
            author: null,
            clientId: null,
            metadata: {},
          };
          const added = addMessage(conversation, draft, { ids: ports.ids, now });
          conversation = { ...added.conversation, version: conversation.version + 1 };
          return added.message;
        });
        await tx.conversations.insert(searching.account.id, conversation);
        for (const message of own) await tx.messages.insert(searching.account.id, message);
      }
    });
  }
  await indexTexts(storage);
  await storage.close();
  return { searching: searching.apiKey.secret, other: other.apiKey.secret };
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) * 100) / 100;
}

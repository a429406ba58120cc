import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Client, clientOf, type Json } from '../support/client.ts';
import { Random } from '../support/random.ts';
import {
  type Asked,
  captureLead,
  createConversation,
  sendMessage,
  viaGraphql,
  viaRest,
} from '../support/repeatables.ts';
import { isCutOff } from './running-servers.ts';

// Clients of several nodes, which know nothing of these but the address of the proxy before them. Any connection may be
// broken and any request be answered UNAVAILABLE: then it was done, or not. What each has asked for, and how it was
// answered, is in the books.

/** The longest that a client waits between two requests. */
const maxPauseMs = 30;
/** How many of its newest conversations a client goes on with. */
const lively = 20;
/** After how many messages all clients write into a new conversation. */
const maxShared = 200;

export interface Entry {
  readonly kind: 'conversation' | 'message' | 'lead' | 'close';
  /** In the subject, the content or the telephone number; of a closing the id of its conversation. */
  readonly mark: string;
  /** Under which it is repeated until it is answered. */
  readonly key: string | undefined;
  /** Undefined as long as no answer has come. */
  answer: { readonly id: string; readonly sequence?: number; readonly version?: number } | undefined;
}

/** A conversation as one client knows it. */
interface Known {
  readonly id: string;
  /** The messages that were acknowledged, by their sequences. */
  readonly messages: Map<number, string>;
  mayBeClosed: boolean;
}

interface Options {
  readonly url: string;
  readonly secret: string;
  readonly name: string;
  readonly seed: number;
  readonly clients: number;
}

/** The clients of one account. */
export class NodeLoad {
  readonly entries: Entry[] = [];
  /** How many answers there were, and how many requests had none or were answered UNAVAILABLE. */
  acknowledged = 0;
  cutOff = 0;
  unavailable = 0;
  readonly #client: Client;
  readonly #name: string;
  readonly #clients: Promise<void>[];
  /** The conversation that all of them write into. */
  #shared: Known | undefined;
  #failure: unknown;
  #isStopped = false;

  constructor({ url, secret, name, seed, clients }: Options) {
    this.#client = clientOf(url, secret);
    this.#name = name;
    this.#clients = Array.from({ length: clients }, async (_, index) => {
      try {
        await this.#live(index, new Random(seed, index + 1));
      } catch (error) {
        this.#failure ??= error;
      }
    });
  }

  /** @throws what a client has met that it should not have */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Resolves when everything that is repeated was answered. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
    this.check();
  }

  async #live(index: number, random: Random): Promise<void> {
    const own: Known[] = [];
    while (!this.#isStopped) {
      await sleep(random.integer(0, maxPauseMs));
      if (index === 0 && (this.#shared?.messages.size ?? maxShared) >= maxShared) {
        this.#shared = await this.#create(random, true);
      }
      const shared = this.#shared;
      const conversation = random.chance(0.4) ? shared : random.pick(own.slice(-lively));
      const roll = random.next();
      if (conversation === undefined || roll < 0.1) {
        const created = await this.#create(random, false);
        if (created.id !== '') own.push(created);
      } else if (roll < 0.6) await this.#send(conversation, random, conversation === shared);
      else if (roll < 0.68) await this.#capture(conversation, random);
      else if (roll < 0.76 && conversation !== shared) await this.#close(conversation, random);
      else if (roll < 0.95) await this.#read(conversation);
      else await this.#list(random);
    }
  }

  async #create(random: Random, isRepeated: boolean): Promise<Known> {
    const entry = this.#entry('conversation', random, isRepeated);
    const first = this.#entry('message', random, isRepeated);
    const asked = createConversation({ subject: entry.mark, message: { content: first.mark, sender: 'visitor' } });
    const result = await this.#write(asked, entry, random);
    const id: string = entry.answer?.id ?? '';
    const [message] = (result?.messages?.nodes ?? result?.messages ?? []) as Json[];
    if (message !== undefined) first.answer = { id: message.id, sequence: message.sequence };
    return { id, messages: new Map(message && [[message.sequence, message.id]]), mayBeClosed: false };
  }

  async #send({ id, messages, mayBeClosed }: Known, random: Random, isShared: boolean): Promise<void> {
    const entry = this.#entry('message', random);
    const sender = isShared || mayBeClosed ? 'visitor' : random.pick(['visitor', 'agent', 'bot']);
    const message = await this.#write(sendMessage(id, { content: entry.mark, sender }), entry, random);
    if (message === undefined) return;
    expect(messages.get(message.sequence) ?? message.id, `message ${message.sequence} of ${id}`).toBe(message.id);
    messages.set(message.sequence, message.id);
  }

  async #capture({ id }: Known, random: Random): Promise<void> {
    const entry = this.#entry('lead', random);
    await this.#write(captureLead({ conversationId: id, phone: entry.mark }), entry, random);
  }

  async #close(conversation: Known, random: Random): Promise<void> {
    const { id } = conversation;
    conversation.mayBeClosed = true;
    const entry: Entry = { kind: 'close', mark: id, key: undefined, answer: undefined };
    this.entries.push(entry);
    const asked: Asked = {
      method: 'PATCH',
      path: `/conversations/${id}`,
      body: { status: 'closed' },
      field: 'closeConversation',
      input: { id },
      selection: 'conversation { id version }',
    };
    await this.#write(asked, entry, random);
  }

  /** What was acknowledged before is seen on every node, and the messages have no gap. */
  async #read({ id, messages }: Known): Promise<void> {
    const before = [...messages];
    const body = await this.#ask(async () => {
      const { status, body } = await this.#client.rest('GET', `/conversations/${id}`);
      if (status === 503) return undefined;
      expect(status, JSON.stringify(body)).toBe(200);
      return body;
    });
    if (body === undefined) return;
    const seen: Json[] = body.messages;
    expect(seen.map(({ sequence }) => sequence)).toEqual(seen.map((_, index) => index + 1));
    expect(body.messageCount).toBe(seen.length);
    expect(before.map(([sequence]) => [sequence, seen[sequence - 1]?.id])).toEqual(before);
  }

  async #list(random: Random): Promise<void> {
    const lists = ['/conversations?limit=5', '/conversations?status=active,pending&limit=3', '/leads?limit=5'];
    const path = random.pick([...lists, '/analytics', '/search?q=message&limit=5']);
    await this.#ask(async () => expect([200, 503]).toContain((await this.#client.rest('GET', path)).status));
  }

  #entry(kind: Entry['kind'], random: Random, isRepeated = random.chance(0.5)): Entry {
    const number = this.entries.length;
    const mark = kind === 'lead' ? `+${number}` : `${kind} ${number} of ${this.#name}`;
    const entry: Entry = { kind, mark, key: isRepeated ? `key-${number}` : undefined, answer: undefined };
    this.entries.push(entry);
    return entry;
  }

  /** Sends a request until it is answered if it has a key, else once; at times twice at once, and at times once more. */
  async #write(asked: Asked, entry: Entry, random: Random): Promise<Json> {
    const { key } = entry;
    const isTwice = key !== undefined && random.chance(0.1);
    const attempts = [this.#try(asked, key, random), ...(isTwice ? [this.#try(asked, key, random)] : [])];
    let results = (await Promise.all(attempts)).filter((result) => result !== undefined);
    while (results.length === 0 && key !== undefined) {
      await sleep(random.integer(1, maxPauseMs));
      results = [await this.#try(asked, key, random)].filter((result) => result !== undefined);
    }
    const [made] = results;
    if (made === undefined) return undefined;
    if (key !== undefined && random.chance(0.1)) {
      const again = await this.#try(asked, key, random);
      if (again !== undefined) results.push(again);
    }
    expect(
      results.map(({ id }) => id),
      `${entry.kind} under ${key}`,
    ).toEqual(results.map(() => made.id));
    this.acknowledged++;
    entry.answer = { id: made.id, sequence: made.sequence, version: made.version };
    return made;
  }

  /** @returns what was made or changed; undefined if that is not known */
  async #try(asked: Asked, key: string | undefined, random: Random): Promise<Json> {
    return await this.#ask(async () => {
      const send = random.chance(0.5) ? viaRest : viaGraphql;
      const { code, result } = await send(this.#client, asked, key);
      if (code === 'UNAVAILABLE') return undefined;
      if (code !== undefined)
        throw new Error(`${JSON.stringify(asked)} was answered ${JSON.stringify(result ?? code)}`);
      return result.conversation ?? result.message ?? result.lead ?? result;
    });
  }

  /** @returns undefined if there was no answer */
  async #ask<T>(ask: () => Promise<T>): Promise<T | undefined> {
    try {
      const answer = await ask();
      if (answer === undefined) this.unavailable++;
      return answer;
    } catch (error) {
      if (!isCutOff(error)) throw error;
      this.cutOff++;
      return undefined;
    }
  }
}

/** Compares an account's books with all that the service tells of it. @param log its whole event log */
export async function compareBooks(client: Client, { entries }: NodeLoad, log: readonly Json[]): Promise<void> {
  expect(log.map(({ sequence }) => sequence)).toEqual(log.map((_, index) => index + 1));
  const done = new Map<string, { id: string; sequence?: number }[]>();
  const add = (mark: string, made: { id: string; sequence?: number }): void => {
    done.set(mark, [...(done.get(mark) ?? []), made]);
  };
  const messages = new Map<string, string[]>();
  const closed = new Set<string>();
  for (const { type, data } of log) {
    if (type === 'conversation.started') add(data.conversation.subject, { id: data.conversation.id });
    if (type === 'lead.captured') add(data.lead.phone, { id: data.lead.id });
    if (type === 'conversation.closed') closed.add(`${data.conversation.id} ${data.conversation.version}`);
    if (!type.startsWith('message.')) continue;
    const { id, content, sequence, conversationId } = data.message;
    add(content, { id, sequence });
    const before = messages.get(conversationId) ?? [];
    expect(sequence, `the next in the log of ${conversationId}`).toBe(before.length + 1);
    messages.set(conversationId, [...before, id]);
  }
  const [lost, doubled, others]: [unknown[], unknown[], unknown[]] = [[], [], []];
  for (const { kind, mark, answer } of entries) {
    if (kind === 'close') {
      if (answer !== undefined && !closed.has(`${mark} ${answer.version}`)) lost.push({ mark, answer });
      continue;
    }
    const made = done.get(mark) ?? [];
    done.delete(mark);
    if (made.length > 1) doubled.push({ mark, made });
    if (answer === undefined) continue;
    if (made.length === 0) lost.push({ mark, answer });
    const { id, sequence } = made[0] ?? {};
    if (made.length > 0 && (id !== answer.id || (answer.sequence ?? sequence) !== sequence))
      others.push({ mark, made, answer });
  }
  expect({ lost, doubled, others, unasked: [...done.keys()] }).toEqual({
    lost: [],
    doubled: [],
    others: [],
    unasked: [],
  });
  await compareStored(client, log, messages);
}

/** What is stored is what the log tells. */
async function compareStored(
  client: Client,
  log: readonly Json[],
  messages: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const count = (...types: string[]): number => log.filter(({ type }) => types.includes(type)).length;
  const get = async (path: string): Promise<Json> => (await client.rest('GET', path)).body;
  for (const [id, ids] of messages) {
    const stored: Json[] = (await get(`/conversations/${id}`)).messages;
    expect(stored.map((message) => message.id)).toEqual(ids);
    expect(stored.map(({ sequence }) => sequence)).toEqual(ids.map((_, index) => index + 1));
  }
  const { totals } = await get('/analytics');
  expect({
    conversations: (await get('/conversations?limit=1')).pagination.total,
    leads: (await get('/leads?limit=1')).pagination.total,
    started: totals.conversationsStarted,
    closed: totals.conversationsClosed,
    reopened: totals.conversationsReopened,
    captured: totals.leads,
    messages: totals.messages.agent + totals.messages.visitor + totals.messages.bot,
  }).toEqual({
    conversations: count('conversation.started'),
    leads: count('lead.captured'),
    started: count('conversation.started'),
    closed: count('conversation.closed'),
    reopened: count('conversation.reopened'),
    captured: count('lead.captured'),
    messages: count('message.sent', 'message.received'),
  });
}

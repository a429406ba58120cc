import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Client, clientOf, type Json } from '../support/client.ts';
import type { Sender } from '../support/expected-figures.ts';
import { Random } from '../support/random.ts';
import {
  type Asked,
  captureLead,
  createConversation,
  sendMessage,
  viaGraphql,
  viaRest,
} from '../support/repeatables.ts';
import { type Effect, type Ledger, marks, nameOf, type TrackedConversation, type Write } from './ledger.ts';
import { isCutOff, type RunningServers } from './running-servers.ts';

/** The longest that a client waits between two requests. */
const maxPauseMs = 16;
/** How many of the newest conversations are written into. */
const lively = 60;

interface Options {
  readonly servers: RunningServers;
  readonly secret: string;
  readonly ledger: Ledger;
  readonly seed: number;
  readonly clients: number;
}

/**
 * Clients that write and read whatever there is, each through a face of its choice, and take everything down. One
 * conversation all of them write into at the same time; what becomes of the others depends on the order of what is
 * asked, so that only one client at a time has each.
 */
export class MixedLoad {
  readonly #servers: RunningServers;
  readonly #secret: string;
  readonly #ledger: Ledger;
  readonly #clients: Promise<void>[];
  #failure: unknown;
  #stopped = false;
  #number = 0;
  /** The conversation of all. */
  #shared: TrackedConversation | undefined;
  /** One that was it and is to be erased. */
  #retired: TrackedConversation | undefined;

  constructor({ servers, secret, ledger, seed, clients }: Options) {
    this.#servers = servers;
    this.#secret = secret;
    this.#ledger = ledger;
    this.#clients = Array.from({ length: clients }, async (_, index) => {
      const random = new Random(seed, 1 + index);
      try {
        while (!this.#stopped) {
          await this.#act(random);
          await sleep(random.integer(0, maxPauseMs));
        }
      } catch (error) {
        this.#failure ??= error;
      }
    });
  }

  /** @throws what a client has met that it should not have */
  check(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** How many messages the conversation of all has. */
  get sharedSize(): number {
    return this.#shared?.messages.size ?? 0;
  }

  /** Has the conversation of all erased as soon as nobody writes into it. */
  retireShared(): void {
    this.#retired ??= this.#shared;
    this.#shared = undefined;
  }

  /** Resolves when everything that is repeated was answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#clients);
    this.check();
  }

  async #act(random: Random): Promise<void> {
    const retired = this.#retired;
    if (retired?.busy === 0) {
      this.#retired = undefined;
      await this.#write({ kind: 'delete', conversation: retired }, random);
      return;
    }
    const idle = [...this.#ledger.conversations.values()]
      .slice(-lively)
      .filter(
        (conversation) => conversation.busy === 0 && conversation !== this.#shared && conversation !== this.#retired,
      );
    if (this.#shared === undefined) this.#shared = idle.find(({ status }) => status !== 'closed');
    const conversation = random.chance(0.9) ? random.pick(idle) : undefined;
    const roll = random.next();
    if (roll < 0.4 && this.#shared !== undefined) {
      const sender = random.pick(['visitor', 'visitor', 'visitor', 'bot'] as const); // who change no status
      await this.#write({ kind: 'message', conversation: this.#shared, sender }, random);
    } else if (roll < 0.52 || conversation === undefined || conversation === this.#shared) {
      const sender = random.pick([undefined, 'agent', 'visitor', 'visitor', 'bot'] as const);
      await this.#write({ kind: 'create', sender }, random);
    } else if (roll < 0.7) {
      const senders: Sender[] = conversation.status === 'closed' ? ['visitor'] : ['agent', 'visitor', 'bot'];
      await this.#write({ kind: 'message', conversation, sender: random.pick(senders) }, random);
    } else if (roll < 0.74) {
      await this.#write({ kind: 'subject', conversation }, random);
    } else if (roll < 0.83) {
      await this.#write(
        { kind: 'status', conversation, to: conversation.status === 'closed' ? 'active' : 'closed' },
        random,
      );
    } else if (roll < 0.88) {
      await this.#write({ kind: 'lead', conversation: random.chance(0.3) ? undefined : conversation }, random);
    } else if (roll < 0.91) {
      await this.#write({ kind: 'delete', conversation }, random);
    } else {
      await this.#read(conversation, random);
    }
  }

  /** Sends a request until it is answered if it has a key, else once. */
  async #write(wanted: Pick<Write, 'kind' | 'conversation' | 'sender' | 'to'>, random: Random): Promise<void> {
    const number = ++this.#number;
    const isRepeatable = wanted.kind === 'create' || wanted.kind === 'message' || wanted.kind === 'lead';
    const key = isRepeatable && random.chance(0.5) ? `key-${number}` : undefined;
    const write: Write = { ...wanted, number, key, tries: 0, settledTries: 0, isCutOff: false, isGivenUp: false };
    this.#ledger.begin(write);
    do {
      const [effect, isReplay] = (await this.#try(write, random)) ?? [];
      if (effect !== undefined) {
        this.#ledger.acknowledge(write, effect, isReplay === true);
        return;
      }
      write.isCutOff = true;
    } while (write.key !== undefined);
    this.#ledger.giveUp(write);
  }

  /** @returns undefined if the server was killed before it answered */
  async #try(write: Write, random: Random): Promise<[Effect, boolean] | undefined> {
    return await this.#ask(async (client, url) => {
      write.url = url;
      write.tries++;
      write.isCutOff = false;
      const send = random.chance(0.5) ? viaRest : viaGraphql;
      const { code, result, headers } = await send(client, askedBy(write), write.key);
      if (code !== undefined) throw new Error(`${nameOf(write)} was answered ${JSON.stringify(result ?? code)}`);
      return [effectOf(write, result), headers['idempotent-replayed'] === 'true'];
    });
  }

  /** What is read of a conversation that nobody changes is what is known of it. */
  async #read(conversation: TrackedConversation, random: Random): Promise<void> {
    const lists = ['/conversations?limit=5', '/conversations?status=active&limit=3', '/leads?limit=5', '/analytics'];
    conversation.busy++;
    try {
      await this.#ask(async (client) => {
        const roll = random.next();
        if (roll < 0.3) {
          expect((await client.rest('GET', random.pick(lists))).status).toBe(200);
        } else if (roll < 0.4) {
          const { errors } = await client.graphql(
            '{ conversations(first: 5) { totalCount nodes { id messages(last: 1) { nodes { content } } } } }',
          );
          // Another process can erase one between the page and its messages: that it is not there is then true.
          const isGone = ({ extensions, path }: Json): boolean =>
            extensions.code === 'NOT_FOUND' && path.at(-1) === 'messages';
          expect((errors ?? []).filter((error: Json) => !isGone(error))).toEqual([]);
        } else {
          const { status, body } = await client.rest('GET', `/conversations/${conversation.id}`);
          expect({
            status,
            version: body.version,
            is: body.status,
            ids: body.messages?.map(({ id }: Json) => id),
          }).toEqual({ status: 200, version: conversation.version, is: conversation.status, ids: idsOf(conversation) });
        }
      });
    } finally {
      conversation.busy--;
    }
  }

  /** @returns undefined if the server was killed before it answered */
  async #ask<T>(ask: (client: Client, url: string) => Promise<T>): Promise<T | undefined> {
    const url = await this.#servers.url();
    try {
      return await ask(clientOf(url, this.#secret), url);
    } catch (error) {
      if (!isCutOff(error)) throw error;
      if (this.#servers.isUp(url))
        throw new Error('A server that was not killed has broken a connection', { cause: error });
      return undefined;
    }
  }
}

function idsOf({ messages }: TrackedConversation): string[] {
  return [...messages].sort(([a], [b]) => a - b).map(([, { id }]) => id);
}

/** A write as each face has it. */
function askedBy({ kind, number, conversation, sender, to }: Write): Asked {
  const message = { content: marks.content(number), sender };
  const id = conversation?.id ?? '';
  const path = `/conversations/${id}`;
  const selection = 'conversation { id version updatedAt }';
  switch (kind) {
    case 'create': {
      const head = { subject: marks.subject(number), externalId: marks.externalId(number) };
      return createConversation(sender === undefined ? head : { ...head, message });
    }
    case 'message':
      return sendMessage(id, message);
    case 'lead':
      return captureLead({ phone: marks.phone(number), ...(conversation && { conversationId: id }) });
    case 'subject': {
      const body = { subject: marks.subject(number) };
      return { method: 'PATCH', path, body, field: 'updateConversation', input: { id, ...body }, selection };
    }
    case 'status': {
      const field = to === 'closed' ? 'closeConversation' : 'reopenConversation';
      return { method: 'PATCH', path, body: { status: to }, field, input: { id }, selection };
    }
    case 'delete': {
      return { method: 'DELETE', path, field: 'deleteConversation', input: { id }, selection: 'deletedConversationId' };
    }
  }
}

function effectOf({ kind, conversation }: Write, result: Json): Effect {
  if (kind === 'delete') return { id: conversation?.id ?? '', atMs: 0 };
  const made = result.conversation ?? result.message ?? result.lead ?? result;
  if (kind === 'subject' || kind === 'status') {
    return { id: made.id, atMs: Date.parse(made.updatedAt), version: made.version };
  }
  const effect = { id: made.id, atMs: Date.parse(made.createdAt) };
  if (kind === 'message') return { ...effect, sequence: made.sequence };
  const [first] = (made.messages?.nodes ?? made.messages ?? []) as Json[];
  return kind === 'create' && first !== undefined ? { ...effect, messageId: first.id } : effect;
}

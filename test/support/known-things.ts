import type { Client, Json } from './client.ts';
import { Drawn } from './documented-requests.ts';

interface Thing {
  readonly id: string;
  /** The id of what it goes with. */
  readonly of: string | undefined;
}

/** What a client can ask for, since it was told of it: ids and cursors. What it lacks it makes. */
export class KnownThings {
  readonly #client: Client;
  readonly #things = new Map<string, Thing[]>();
  readonly #cursors = new Map<string, string[]>();

  constructor(client: Client) {
    this.#client = client;
  }

  /**
   * A value with what is known in place of all that is to be drawn; a member for which there is nothing is left out.
   * @param list names the list whose cursors are meant
   */
  async filled<T>(value: T, list = ''): Promise<T> {
    if (value instanceof Drawn) return (await this.#drawn(value, list)) as T;
    if (Array.isArray(value)) return (await Promise.all(value.map((each) => this.filled(each, list)))) as T;
    if (typeof value !== 'object' || value === null) return value;
    const entries: [string, unknown][] = [];
    for (const [name, member] of Object.entries(value)) {
      const known = await this.filled(member, list);
      if (known !== undefined) entries.push([name, known]);
    }
    return Object.fromEntries(entries) as T;
  }

  /** Something of a kind; there is always something. */
  async thing({ kind, nth }: Drawn): Promise<Thing> {
    if (this.#of(kind).length < 3) await this.#make(kind);
    const things = this.#of(kind);
    return things[nth % things.length] as Thing;
  }

  /** Takes note of what an answer tells of. */
  learn(body: Json): void {
    if (typeof body !== 'object' || body === null) return;
    const { id, conversationId, webhookId, messages, documents = [] } = body;
    const kind = /^([a-z]+)_/.exec(String(id))?.[1];
    if (kind !== undefined) this.#add(kind, { id, of: conversationId ?? webhookId });
    for (const document of documents) this.#add('document', { id: document.id, of: undefined });
    for (const message of messages ?? []) this.learn(message);
  }

  learnCursor(list: string, cursor: string): void {
    this.#cursors.set(list, [...(this.#cursors.get(list) ?? []), cursor].slice(-50));
  }

  /** Forgets what was deleted, with all that goes with it. */
  forget(id: string): void {
    for (const [kind, things] of this.#things) {
      this.#things.set(
        kind,
        things.filter((thing) => thing.id !== id && thing.of !== id),
      );
    }
  }

  async #drawn(drawn: Drawn, list: string): Promise<string | undefined> {
    if (drawn.kind === 'event cursor') return (await this.#client.rest('GET', '/account')).body.eventCursor;
    if (drawn.kind !== 'cursor') return (await this.thing(drawn)).id;
    const cursors = this.#cursors.get(list) ?? [];
    return cursors[drawn.nth % cursors.length];
  }

  #of(kind: string): readonly Thing[] {
    return this.#things.get(kind) ?? [];
  }

  #add(kind: string, thing: Thing): void {
    const others = this.#of(kind).filter(({ id }) => id !== thing.id);
    this.#things.set(kind, [...others, thing]);
  }

  async #make(kind: string): Promise<void> {
    for (let count = 0; count < 3; count++) {
      const [path, body] = await this.#making(kind);
      const made = (await this.#client.rest('POST', path, { body })).body;
      this.learn(made);
      // One of the conversations is closed.
      if (kind === 'conv' && count === 0) {
        await this.#client.rest('PATCH', `/conversations/${made.id}`, { body: { status: 'closed' } });
      }
    }
  }

  async #making(kind: string): Promise<readonly [path: string, body: object]> {
    switch (kind) {
      case 'conv':
      case 'msg':
        return ['/conversations', { message: { content: 'Where is my parcel?', sender: 'visitor' } }];
      case 'lead':
        return ['/leads', { email: 'ada@example.com' }];
      case 'whk':
        return ['/webhooks', { url: 'https://hooks.invalid/' }];
      case 'dlv':
        return [`/webhooks/${(await this.thing(new Drawn('whk', 0))).id}/test`, {}];
      case 'key':
        return ['/api-keys', { name: 'another' }];
      default:
        return ['/documents', { documents: [{ id: `document-${this.#of(kind).length}`, text: '{ account { id } }' }] }];
    }
  }
}

import { expect } from 'vitest';
import { expectSound, rowsOf } from '../cli/rows.ts';
import type { Json } from '../support/client.ts';
import { AccountSnapshot, type EventRow, erased } from './account-snapshot.ts';
import type { Seen } from './followers.ts';
import { eventName, type Ledger, Ordinals, type TrackedConversation, type Write } from './ledger.ts';

// Holds a file against the ledger of those who have written into it. What is new is looked at each time, and
// everything when it is asked for.

export class Audit {
  readonly #path: string;
  readonly #accountId: string;
  readonly #ledger: Ledger;
  /** How far it has come in the log of events, and in the deliveries. */
  #sequence = 0;
  #deliveryKey = 0;
  readonly #ordinals = new Ordinals();

  constructor(path: string, accountId: string, ledger: Ledger) {
    this.#path = path;
    this.#accountId = accountId;
    this.#ledger = ledger;
  }

  /** What servers that have ended have done of what they were asked, and nobody was told. */
  settle(which?: (write: Write) => boolean): Write[] {
    return this.#read((snapshot) => this.#ledger.settle((write) => snapshot.effectOf(write), which));
  }

  /**
   * Looks at what is new since the last time. Nobody may write meanwhile but senders of webhooks.
   * @param seen what followers were given since
   */
  check(seen: readonly (readonly Seen[])[] = []): void {
    this.#read((snapshot) => {
      expect(snapshot.all('PRAGMA integrity_check')).toEqual([{ integrity_check: 'ok' }]);
      expect(snapshot.all('PRAGMA foreign_key_check')).toEqual([]);
      this.#ledger.settle((write) => snapshot.effectOf(write));
      const changed = [...this.#ledger.changed];
      this.#ledger.changed = new Set();
      this.#checkConversations(snapshot, changed);
      this.#checkEvents(snapshot);
      this.#checkKeys(snapshot);
      this.#checkCounters(snapshot);
      for (const events of seen) checkSeen(snapshot, events);
    });
  }

  /** Recounts everything. */
  checkWhole(): void {
    this.check();
    const { conversations, leads, events } = this.#ledger;
    this.#read((snapshot) => {
      const messageCount = [...conversations.values()].reduce((sum, { messages }) => sum + messages.size, 0);
      this.#checkConversations(snapshot, [...conversations.values()]);
      const ofErasing = 'IN (SELECT conversation_key FROM erasing)';
      expect({
        conversations: snapshot.count(`conversations WHERE key NOT ${ofErasing}`),
        messages: snapshot.count(`messages WHERE conversation_key NOT ${ofErasing}`),
        leads: snapshot.count(
          'leads WHERE conversation_id IS NULL OR conversation_id NOT IN (SELECT conversation_id FROM erasing)',
        ),
        events: snapshot.count('events'),
        deliveries: snapshot.count('deliveries'),
        'messages that are not younger than the one before': snapshot.count(`messages JOIN messages AS before
          ON before.conversation_key = messages.conversation_key AND before.sequence = messages.sequence - 1
          WHERE before.id >= messages.id OR before.created_at > messages.created_at`),
        'attempts that are not numbered 1, 2, 3 …': snapshot.count(`deliveries WHERE
          attempt_count <> (SELECT count(*) FROM attempts WHERE delivery_key = deliveries.key) OR
          attempt_count <> (SELECT coalesce(max(number), 0) FROM attempts WHERE delivery_key = deliveries.key)`),
        'erased events that still tell something': snapshot.count(`events WHERE data <> '${erased}'
          AND type <> 'conversation.deleted'
          AND conversation_id NOT IN (SELECT id FROM conversations UNION SELECT conversation_id FROM erasing)`),
      }).toEqual({
        conversations: conversations.size,
        messages: messageCount,
        leads: leads.size,
        events,
        deliveries: events,
        'messages that are not younger than the one before': 0,
        'attempts that are not numbered 1, 2, 3 …': 0,
        'erased events that still tell something': 0,
      });
      checkHistograms(snapshot);
    });
    expectSound(rowsOf(this.#path, this.#accountId));
  }

  /** How many deliveries wait for an attempt or for its end. */
  pendingDeliveries(): number {
    return this.#read((snapshot) => snapshot.count("deliveries WHERE status = 'pending'"));
  }

  /** How many conversations are being erased, or were when a server was killed. */
  begunErasures(): number {
    return this.#read((snapshot) => snapshot.count('erasing'));
  }

  /** The deliveries that some server is trying, or was trying when it was killed. */
  leased(): { readonly eventId: string; readonly lease: string }[] {
    return this.#read((snapshot) =>
      snapshot.all('SELECT event_id AS eventId, lease FROM delivery_leases JOIN deliveries ON key = delivery_key'),
    );
  }

  #read<T>(work: (snapshot: AccountSnapshot) => T): T {
    const snapshot = new AccountSnapshot(this.#path, this.#accountId);
    try {
      return work(snapshot);
    } finally {
      snapshot.close();
    }
  }

  /** Each conversation is as its clients know it, with its messages, or nothing of it is left. */
  #checkConversations(snapshot: AccountSnapshot, conversations: readonly TrackedConversation[]): void {
    expect(conversations.map(({ id }) => snapshot.conversation(id))).toEqual(
      conversations.map((conversation) => (conversation.isErased ? undefined : shownOf(conversation))),
    );
    for (const conversation of conversations.filter(({ isErased }) => isErased))
      expect(snapshot.remainsOf(conversation), conversation.id).toEqual([]);
  }

  /** Each change that is told has its one event and each event its one delivery, without gaps. */
  #checkEvents(snapshot: AccountSnapshot): void {
    const { expectedEvents } = this.#ledger;
    const events = snapshot.eventsAfter(this.#sequence);
    expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => this.#sequence + index + 1));
    const unexplained: string[] = [];
    for (const event of events) {
      const name = event.data === erased ? nameOfErased(event, expectedEvents) : nameOfEvent(event, this.#ordinals);
      if (!expectedEvents.delete(name)) unexplained.push(name);
    }
    expect({ unexplained, missing: [...expectedEvents] }).toEqual({ unexplained: [], missing: [] });
    this.#sequence += events.length;
    const deliveries = snapshot.deliveriesAfter(this.#deliveryKey);
    expect(deliveries.map(({ eventId, eventSequence }) => [eventSequence, eventId])).toEqual(
      events.map(({ id, sequence }) => [sequence, id]),
    );
    this.#deliveryKey = deliveries.at(-1)?.key ?? this.#deliveryKey;
  }

  /** A result is kept for each key whose request had its effect, and for no other. */
  #checkKeys(snapshot: AccountSnapshot): void {
    const { kept, conversations, open } = this.#ledger;
    const isErasing = snapshot.count('erasing') > 0;
    for (const { write, effect } of kept) {
      const result = snapshot.keptResult(write.key ?? '');
      expect(result, `a result is kept for ${write.kind} ${write.number}`).toBeDefined();
      const conversationId = write.kind === 'create' ? effect.id : write.conversation?.id;
      const isErased = conversationId !== undefined && !conversations.has(conversationId);
      if (!isErased) expect(result?.result).toContain(effect.id);
      else if (!isErasing) expect(result?.result).toBeNull();
    }
    const done = new Set(kept.map(({ write }) => write));
    for (const write of open) {
      if (write.key !== undefined && !done.has(write) && this.#ledger.foundOf(write) === undefined) {
        expect(snapshot.keptResult(write.key), `nothing is kept for ${write.kind} ${write.number}`).toBeUndefined();
      }
    }
    this.#ledger.kept = [];
  }

  #checkCounters(snapshot: AccountSnapshot): void {
    const { figures, leads, events } = this.#ledger;
    const count = (status: 'active' | 'pending' | 'closed') => this.#ledger.count(status);
    expect({ ...snapshot.totals(), ...snapshot.counters() }).toEqual({
      active: count('active'),
      pending: count('pending'),
      closed: count('closed'),
      leadsNow: leads.size,
      eventSequence: events,
      ...figures.totals,
    });
  }
}

function shownOf({ id, status, subject, externalId, version, messages, leads }: TrackedConversation) {
  return {
    id,
    status,
    subject,
    externalId,
    version,
    messageCount: messages.size,
    converted: leads.size > 0 ? 1 : 0,
    messages: [...messages]
      .sort(([a], [b]) => a - b)
      .map(([sequence, { id, sender, content }]) => ({ sequence, id, sender, content })),
  };
}

function nameOfEvent({ type, conversationId, data }: EventRow, ordinals: Ordinals): string {
  const { message, conversation, lead } = JSON.parse(data) as Json;
  switch (type) {
    case 'conversation.started':
      return eventName(type, conversationId, conversation.id);
    case 'message.received':
    case 'message.sent':
      return eventName(type, conversationId, `${message.id} ${conversation.messageCount}`);
    case 'conversation.updated':
    case 'conversation.reopened':
      return eventName(type, conversationId, `${ordinals.next(type, conversationId)}`);
    case 'conversation.deleted':
      return eventName(type, conversationId, '');
    case 'conversation.closed':
      return eventName(type, conversationId, `${conversation.version}`);
    default:
      return eventName(type, conversationId, lead.id);
  }
}

/** Which of a conversation's it was cannot be told any more. */
function nameOfErased({ type, conversationId }: EventRow, expectedEvents: ReadonlySet<string>): string {
  const start = eventName(type, conversationId, '');
  return [...expectedEvents].find((name) => name.startsWith(start)) ?? start;
}

/** What a follower was given is in the log, and at the same place. */
function checkSeen(snapshot: AccountSnapshot, seen: readonly Seen[]): void {
  const [first, last] = [seen[0], seen.at(-1)];
  if (first === undefined || last === undefined) return;
  const events = snapshot.eventsAfter(first.sequence - 1).slice(0, last.sequence - first.sequence + 1);
  expect(seen.map(({ sequence, id, type }) => [sequence, id, type])).toEqual(
    events.map(({ sequence, id, type }) => [sequence, id, type]),
  );
  for (const [index, { what, id }] of seen.entries()) {
    const event = events[index];
    if (event === undefined || event.data === erased) continue;
    expect(what, id).toBe(whatOf(event.type, JSON.parse(event.data)));
  }
}

/** The id of what an event tells of; null when it was erased. */
export function whatOf(type: string, { message, conversation, conversationId, lead }: Json): string | null {
  if (type.startsWith('message.')) return message?.id ?? null;
  if (type === 'conversation.deleted' || type === 'conversation.read') return conversationId ?? null;
  return (type === 'lead.captured' ? lead?.id : conversation?.id) ?? null;
}

/** Each width of the histograms holds as many durations as were counted. */
function checkHistograms(snapshot: AccountSnapshot): void {
  const { firstResponse, resolution } = snapshot.counters();
  const sums = new Map<string, number>();
  for (const { name, width, counts } of snapshot.histograms()) {
    const of = `${name} ${width}`;
    for (let at = 2; at < counts.length; at += 6) sums.set(of, (sums.get(of) ?? 0) + counts.readUInt32BE(at));
  }
  const widths = [1, 4, 96];
  const wanted = [
    ...widths.map((width) => [`firstResponses ${width}`, firstResponse] as const),
    ...widths.map((width) => [`resolutions ${width}`, resolution] as const),
  ];
  expect([...sums].toSorted()).toEqual(wanted.filter(([, count]) => (count ?? 0) > 0).toSorted());
}

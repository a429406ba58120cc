import { createConversation, updateConversation } from '../domain/conversations.ts';
import type { Ids } from '../domain/ids.ts';
import { captureLead } from '../domain/leads.ts';
import type { Sender } from '../domain/message-record.ts';
import { sendMessage } from '../domain/messages.ts';
import type { Operation } from '../domain/operation.ts';
import { visitorReader } from '../domain/read-position-record.ts';
import { markRead } from '../domain/read-positions.ts';
import * as texts from './seed-texts.ts';

// The invented history of a shop: who comes when, and what happens then.

/** What the history of a shop is drawn from: the same seed gives the same people, words and times. */
export interface Shop {
  readonly seed: number;
  readonly conversations: number;
  readonly fromMs: number;
  /** What would happen later is left out, so the newest conversations are still open. */
  readonly toMs: number;
}

/** Something that happens in a conversation: the call of an operation. */
export interface Step {
  readonly atMs: number;
  readonly operation: Pick<Operation, 'name' | 'execute'>;
  readonly input: object;
  readonly conversationId: string;
}

type Guest = ReturnType<typeof guestOf>;
type Agent = { readonly id: string; readonly name: string };

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** How busy each hour of a day is, from midnight in UTC, and each day of the week, from Sunday. */
const busyHours = [2, 1, 1, 1, 1, 2, 5, 11, 22, 34, 40, 38, 32, 34, 37, 36, 33, 30, 28, 31, 33, 26, 14, 6];
const busyDays = [0.5, 1.4, 1.15, 1.05, 1, 0.95, 0.6];
const opensAt = 7;
const closesAt = 22;
/** The history of so many conversations is invented at a time, and then put in the order of time. */
const portion = 50;
const bot = { id: 'bot-welcome', name: 'Welcome bot' };

export function shopName(seed: number): string {
  return new Random(seed, -1).pick(texts.shopNames);
}

/** All that happens in a shop, in the order of time and part by part. */
export function* inOrder(shop: Shop, ids: Ids): Generator<Step[]> {
  const team = new Random(shop.seed, -2);
  const agents = Array.from({ length: 6 }, (_, index) => ({ id: `agent-${index + 1}`, name: nameOf(team) }));
  const waiting: Step[] = [];
  const sort = () => waiting.sort((one, other) => one.atMs - other.atMs);
  let invented = 0;
  for (const startMs of arrivals(shop)) {
    const random = new Random(shop.seed, invented++);
    const guest = guestOf(shop.seed, random.integer(1, Math.ceil(0.8 * shop.conversations))); // some come again
    const steps = story(random, ids.next('conversation', startMs), startMs, guest, agents);
    waiting.push(...steps.filter(({ atMs }) => atMs <= shop.toMs));
    if (invented % portion > 0) continue;
    sort();
    const later = waiting.findIndex(({ atMs }) => atMs >= startMs); // what follows may still come in between
    yield waiting.splice(0, later);
  }
  sort();
  while (waiting.length > 0) yield waiting.splice(0, 10 * portion);
}

/** When conversations start, ascending: few at night and at weekends, many on Mondays. */
function* arrivals({ seed, conversations, fromMs, toMs }: Shop): Generator<number> {
  const random = new Random(seed, -3);
  const hours = Array.from({ length: Math.ceil((toMs - fromMs) / hourMs) }, (_, index) => {
    const at = new Date(fromMs + index * hourMs);
    return (busyHours[at.getUTCHours()] ?? 0) * (busyDays[at.getUTCDay()] ?? 0);
  });
  const total = hours.reduce((sum, busy) => sum + busy, 0);
  let passed = 0;
  let started = 0;
  for (const [index, busy] of hours.entries()) {
    passed += busy;
    const now = Math.round((conversations * passed) / total) - started;
    const hourStart = fromMs + index * hourMs;
    const lengthMs = Math.min(hourMs, toMs - hourStart);
    yield* Array.from({ length: now }, () => Math.floor(hourStart + random.next() * lengthMs)).sort((a, b) => a - b);
    started += now;
  }
}

/** The life of one conversation. Its steps are in the order of time, except that of a contact form. */
function story(
  random: Random,
  conversationId: string,
  startMs: number,
  guest: Guest,
  agents: readonly Agent[],
): Step[] {
  const steps: Step[] = [];
  let agent = random.pick(agents);
  let atMs = startMs;
  const wait = (medianMs: number, spread = 1): void => {
    atMs += Math.max(1_000, Math.floor(random.logNormal(medianMs, spread)));
  };
  const visitorWaits = (): void => (random.chance(0.07) ? wait(6 * hourMs, 0.8) : wait(75_000, 1.1));
  const agentWaits = (medianMs: number): void => {
    wait(medianMs);
    atMs = atWork(random, atMs);
  };

  const topic = random.weighted(texts.topics);
  const facts: Record<string, string> = {
    visitor: guest.visitor?.name?.split(' ')[0] ?? '',
    agent: firstNameOf(agent),
    order: String(random.integer(10_000, 99_999)),
    amount: (random.integer(900, 24_900) / 100).toFixed(2),
  };
  for (const [name, list] of Object.entries(texts.facts)) facts[name] = random.pick(list);
  const fill = (line: string): string => {
    const addressed = facts['visitor'] === '' ? line.replace(/,? \{visitor\}/, '') : line;
    return addressed.replace(/\{(\w+)\}/g, (_, name: string) => facts[name] ?? '');
  };
  const say = (lines: readonly string[]): string => fill(random.pick(lines));

  const step = (operation: Step['operation'], input: object): void => {
    steps.push({ atMs, operation, input, conversationId });
  };
  let count = 0; // of messages
  let lastSender: Sender | undefined;
  const message = (sender: Sender, content: string) => {
    count++;
    lastSender = sender;
    return { sender, content, author: sender === 'agent' ? agent : sender === 'bot' ? bot : null };
  };
  const send = (sender: Sender, content: string): void =>
    step(sendMessage, { conversationId, ...message(sender, content) });
  const read = (reader: string): void => step(markRead, { conversationId, reader, sequence: count });
  /** Most visitors come back to see what was answered. */
  const visitorReads = (): void => {
    if (!random.chance(0.8)) return;
    wait(3 * minuteMs);
    read(visitorReader);
  };
  const update = (changes: object): void => step(updateConversation, { id: conversationId, ...changes });
  /** An agent has it from here on. */
  const assign = (to: Agent, changes: object = {}): void => {
    agent = to;
    facts['agent'] = firstNameOf(to);
    update({ assignee: to, ...changes });
  };
  const close = (): void => {
    agentWaits(12 * minuteMs);
    if (isAnswered && lastSender === 'visitor') read(agent.id);
    update({ status: 'closed', metadata: { resolved: isAnswered } });
  };

  // Most are started by the visitor, some by a bot or an agent; a few visitors open the window and say nothing.
  const start = random.next();
  const first =
    start < 0.86
      ? message('visitor', say(topic.openings))
      : start < 0.92
        ? message('bot', say(texts.offers))
        : start < 0.97
          ? message('agent', say(texts.outreaches))
          : undefined;
  step(createConversation, {
    subject: random.chance(0.75) ? say(topic.subjects) : null,
    visitor: guest.visitor,
    metadata: { ...guest.metadata, page: random.pick(texts.pages) },
    ...(guest.metadata.plan === 'member' && { tags: ['member'] }),
    ...(first?.sender === 'agent' && { assignee: agent }),
    ...(first !== undefined && { message: first }),
  });
  if (first?.sender === 'visitor' && random.chance(0.3)) {
    wait(2_000, 0.3);
    send('bot', say(texts.welcomes));
  } else if (first?.sender !== 'visitor' && random.chance(0.6)) {
    visitorWaits();
    send('visitor', say(topic.openings));
  }

  const isAnswered = random.chance(0.94); // the others leave before an agent comes
  if (isAnswered) {
    agentWaits(5 * minuteMs);
    assign(agent, { addTags: [topic.tag] });
    if (random.chance(0.1)) {
      send('agent', say(texts.connecting));
      if (random.chance(0.25)) update({ status: 'pending' });
      agentWaits(15 * minuteMs);
      if (random.chance(0.4)) assign(random.pick(agents));
    }
    send('agent', say(topic.answers));
    if (random.chance(0.08)) {
      wait(20_000, 0.5);
      send('agent', say(texts.contactRequests));
      visitorWaits();
      send('visitor', [guest.contact.name, guest.contact.email, guest.contact.phone].filter(Boolean).join(', '));
      wait(10_000, 0.5);
      step(captureLead, { conversationId, ...guest.contact });
    }
    // More than half have at least one exchange, and a few have twenty.
    const rounds = Math.floor(random.logNormal(1.15, 0.95));
    const own = random.rotated(topic.exchanges);
    const others = random.rotated(texts.topics).filter((each) => each !== topic);
    for (const [asked, answered] of [...own, ...others.flatMap(({ exchanges }) => exchanges)].slice(0, rounds)) {
      visitorWaits();
      send('visitor', fill(asked));
      agentWaits(2 * minuteMs);
      send('agent', fill(answered));
    }
  }

  if (random.chance(0.96)) {
    if (isAnswered && random.chance(0.55)) {
      visitorWaits();
      send('visitor', say(texts.thanks));
      if (random.chance(0.5)) {
        agentWaits(minuteMs);
        send('agent', say(texts.goodbyes));
      }
    }
    if (lastSender === 'agent') visitorReads();
    close();
    if (isAnswered && random.chance(0.08)) {
      wait(0.6 * dayMs);
      if (random.chance(0.65)) send('visitor', say(texts.secondThoughts));
      else update({ status: 'active' });
      agentWaits(10 * minuteMs);
      update({ addTags: ['reopened'] });
      send('agent', say(texts.followUps));
      visitorReads();
      close();
    }
    if (isAnswered && random.chance(0.2)) {
      wait(hourMs);
      update({ metadata: { rating: random.pick([5, 5, 5, 5, 4, 4, 4, 3, 2, 1]) } });
    }
  }
  if (random.chance(0.02)) {
    atMs = startMs + random.integer(1, hourMs);
    step(captureLead, guest.contact); // by a contact form, outside of the conversation
  }
  return steps;
}

/** When an agent gets to something: at once while the shop is open, otherwise the next morning. */
function atWork(random: Random, atMs: number): number {
  const delayMs = Math.floor(random.logNormal(25 * minuteMs, 0.8));
  const midnight = Math.floor(atMs / dayMs) * dayMs;
  const hour = (atMs - midnight) / hourMs;
  if (hour >= opensAt && hour < closesAt) return atMs;
  return midnight + opensAt * hourMs + (hour < opensAt ? 0 : dayMs) + delayMs;
}

function firstNameOf({ name }: Agent): string {
  return name.split(' ')[0] ?? '';
}

function nameOf(random: Random): string {
  return `${random.pick(texts.firstNames)} ${random.pick(texts.lastNames)}`;
}

/** The guest with a number: what the shop knows of them as its visitor, and the contact that they may leave. */
function guestOf(seed: number, number: number) {
  const random = new Random(~seed, number);
  const name = nameOf(random);
  const email = `${name.replace(' ', '.').toLowerCase()}${number % 97}@example.${random.pick(['com', 'org', 'net'])}`;
  const known = random.next();
  const visitor = {
    id: `visitor-${number}`,
    name: known < 0.85 ? name : null,
    email: known < 0.75 ? email : null,
  };
  return {
    visitor: known < 0.95 ? visitor : null,
    contact: {
      name,
      email,
      phone: random.chance(0.4) ? `+1 212 555 01${random.integer(10, 99)}` : null,
      company: random.chance(0.2) ? random.pick(texts.companies) : null,
    },
    metadata: { locale: random.pick(texts.locales), plan: known < 0.3 ? 'member' : 'guest' },
  };
}

/** Choices by chance that can be repeated: the same seed and number give the same ones. The algorithm is mulberry32. */
class Random {
  #state: number;

  constructor(seed: number, number: number) {
    this.#state = Math.imul(seed, 0x9e3779b1) ^ Math.imul(number, 0x85ebca6b);
  }

  /** From 0 (inclusive) to 1 (exclusive). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number, both bounds inclusive. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  pick<T>(list: readonly T[]): T {
    return list[this.integer(0, list.length - 1)] as T;
  }

  weighted<T extends { readonly weight: number }>(list: readonly T[]): T {
    return this.pick(list.flatMap((each) => Array<T>(each.weight).fill(each)));
  }

  /** The list from a place by chance to its end, and then from its beginning. */
  rotated<T>(list: readonly T[]): T[] {
    const from = this.integer(0, list.length - 1);
    return [...list.slice(from), ...list.slice(0, from)];
  }

  /** As the times are that people take to answer: half of them below the median, and a few much longer. */
  logNormal(median: number, spread: number): number {
    const normal = Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next()); // Box-Muller
    return median * Math.exp(spread * normal);
  }
}

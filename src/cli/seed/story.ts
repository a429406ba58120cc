import type { ConversationChanges, ConversationInput } from '../../domain/conversation-changes.ts';
import type { LeadInput } from '../../domain/leads.ts';
import type { Author, MessageDraft, Sender } from '../../domain/messages.ts';
import * as words from './dialogues.ts';
import { type Facts, factsFor, type Line, say } from './lines.ts';
import { bots, type Contact, contactOf, type Guest, visitOf } from './people.ts';
import type { Random } from './random.ts';
import { atWork, dayMs, hourMs, minuteMs } from './timeline.ts';

/** A change of a conversation. A lead may also be captured outside of one. */
export type Action =
  | { readonly kind: 'start'; readonly input: ConversationInput }
  | { readonly kind: 'message'; readonly draft: MessageDraft }
  | { readonly kind: 'change'; readonly changes: ConversationChanges }
  | { readonly kind: 'lead'; readonly input: Omit<LeadInput, 'conversationId'> };

export interface Step {
  readonly atMs: number;
  readonly action: Action;
}

export interface Cast {
  readonly guest: Guest;
  readonly agents: readonly Author[];
}

/** The most messages in a conversation. */
export const longestStory = 60;

const topicWeight = words.topics.reduce((sum, { weight }) => sum + weight, 0);

function pickTopic(random: Random): words.Topic {
  const place = random.next() * topicWeight;
  let passed = 0;
  const found = words.topics.find(({ weight }) => {
    passed += weight;
    return place < passed;
  });
  return found ?? (words.topics[0] as words.Topic);
}

/** The life of one conversation: its steps in chronological order, the first of which starts it. */
export function* storyOf(random: Random, startMs: number, cast: Cast): Generator<Step, void> {
  const story = new Story(random, startMs, cast);
  yield* story.opening();
  yield* story.talk();
  if (random.chance(0.96)) yield* story.ending();
}

/** A contact form that a guest fills in without a conversation. */
export function* formOf(random: Random, startMs: number, { guest }: Cast): Generator<Step, void> {
  yield { atMs: startMs + random.integer(1, hourMs), action: leadOf(contactOf(random, guest)) };
}

function leadOf(contact: Contact): Action {
  return { kind: 'lead', input: { ...contact, metadata: {} } };
}

class Story {
  readonly #random: Random;
  readonly #cast: Cast;
  readonly #agent: Author;
  readonly #topic: words.Topic;
  readonly #facts: Facts;
  #nowMs: number;
  #messages = 0;
  #answered = false;

  constructor(random: Random, startMs: number, cast: Cast) {
    this.#random = random;
    this.#cast = cast;
    this.#nowMs = startMs;
    this.#agent = random.pick(cast.agents);
    this.#topic = pickTopic(random);
    this.#facts = factsFor(random, {
      visitor: cast.guest.visitor?.name == null ? 'there' : cast.guest.firstName,
      agent: this.#agent.name?.split(' ')[0] ?? 'the team',
    });
  }

  /** Most are started by the visitor, some by a bot or an agent; a few visitors open the window and say nothing. */
  *opening(): Generator<Step, void> {
    const random = this.#random;
    const how = random.next();
    if (how < 0.86) yield this.#start('visitor', this.#request());
    else if (how < 0.92) yield this.#start('bot', this.#line(words.botOffers));
    else if (how < 0.97) yield this.#start('agent', this.#line(words.outreaches));
    else yield this.#start();
    if (how < 0.86 && random.chance(0.3)) {
      this.#later(2_000, 0.3);
      yield this.#says('bot', this.#line(words.botWelcomes));
    }
    if (how >= 0.86 && random.chance(0.6)) {
      this.#visitorWaits();
      yield this.#says('visitor', this.#request());
    }
  }

  /** An agent answers, and some rounds of questions and answers follow. */
  *talk(): Generator<Step, void> {
    const random = this.#random;
    if (random.chance(0.06)) return; // the visitor leaves before an agent comes
    if (random.chance(0.08)) {
      this.#later(20 * minuteMs, 0.7);
      yield this.#says('visitor', this.#line(words.nudges));
    }
    this.#agentWaits(this.#answered ? 3 * minuteMs : 5 * minuteMs);
    if (random.chance(0.1)) {
      yield this.#says('agent', this.#line(words.connecting));
      if (random.chance(0.25)) yield this.#changes({ status: 'pending' });
      this.#agentWaits(15 * minuteMs);
    }
    yield this.#says('agent', this.#line(this.#topic.answers));
    if (random.chance(this.#cast.guest.visitor?.email == null ? 0.2 : 0.06)) yield* this.#leavesContact();
    // More than half have at least one exchange, and a few have twenty or more.
    let rounds = Math.min(Math.floor(random.logNormal(1.15, 0.95)), 27);
    for (const [asked, answered] of this.#questions()) {
      if (rounds-- <= 0 || this.#messages > longestStory - 8) return;
      this.#visitorWaits();
      yield this.#says('visitor', say(asked, this.#facts));
      this.#agentWaits(2 * minuteMs);
      yield this.#says('agent', say(answered, this.#facts));
    }
  }

  *ending(): Generator<Step, void> {
    const random = this.#random;
    if (this.#answered && random.chance(0.55)) {
      this.#visitorWaits();
      yield this.#says('visitor', this.#line(words.thanks));
      if (random.chance(0.5)) {
        this.#agentWaits(minuteMs);
        yield this.#says('agent', this.#line(words.goodbyes));
      }
    }
    yield* this.#close();
    if (this.#answered && random.chance(0.08)) yield* this.#again();
    if (this.#answered && random.chance(0.2)) {
      this.#later(hourMs, 1);
      yield this.#changes({ metadata: { rating: random.pick([5, 5, 5, 5, 4, 4, 4, 3, 2, 1]) } });
    }
  }

  /** It was not resolved: the visitor writes again, or an agent reopens it. */
  *#again(): Generator<Step, void> {
    const random = this.#random;
    this.#nowMs += Math.floor(random.logNormal(0.6 * dayMs, 1));
    if (random.chance(0.65)) {
      yield this.#says('visitor', this.#line(words.secondThoughts));
      this.#agentWaits(10 * minuteMs);
    } else {
      this.#agentWaits(minuteMs);
      yield this.#changes({ status: 'active' });
    }
    yield this.#says('agent', this.#line(words.followUps));
    yield* this.#close();
  }

  *#close(): Generator<Step, void> {
    this.#agentWaits(12 * minuteMs);
    yield this.#changes({ status: 'closed', metadata: { resolved: this.#answered } });
  }

  *#leavesContact(): Generator<Step, void> {
    const contact = contactOf(this.#random, this.#cast.guest);
    this.#later(20_000, 0.5);
    yield this.#says('agent', this.#line(words.contactRequests));
    this.#visitorWaits();
    yield this.#says(
      'visitor',
      [contact.name, contact.email, contact.phone].filter((part) => part !== null).join(', '),
    );
    this.#later(10_000, 0.5);
    yield { atMs: this.#nowMs, action: leadOf(contact) };
  }

  /** An endless supply of questions and answers: about the topic, then general ones, then about another topic. */
  *#questions(): Generator<readonly [asked: Line, answered: Line], void> {
    let topic = this.#topic;
    for (;;) {
      for (const list of [topic.exchanges, words.anyExchanges]) {
        const first = this.#random.integer(0, list.length - 1);
        yield* list.slice(first);
        yield* list.slice(0, first);
      }
      topic = pickTopic(this.#random);
      yield [this.#random.pick(topic.openings), this.#random.pick(topic.answers)];
    }
  }

  #request(): string {
    const greeting = this.#random.pick(words.greetings);
    const text = this.#line(this.#topic.openings);
    const begins = greeting === '' || /[!.] $/.test(greeting);
    return `${greeting}${begins ? capitalized(text) : text}`;
  }

  #line(from: readonly Line[]): string {
    return say(this.#random.pick(from), this.#facts);
  }

  #start(sender?: Sender, text?: string): Step {
    const subject = this.#random.chance(0.75) ? capitalized(this.#line(this.#topic.subjects)) : null;
    const input: ConversationInput = {
      subject,
      visitor: this.#cast.guest.visitor,
      externalId: null,
      metadata: visitOf(this.#random, this.#cast.guest),
      message: sender === undefined || text === undefined ? null : this.#draft(sender, text),
    };
    return { atMs: this.#nowMs, action: { kind: 'start', input } };
  }

  #says(sender: Sender, text: string): Step {
    return { atMs: this.#nowMs, action: { kind: 'message', draft: this.#draft(sender, text) } };
  }

  #changes(changes: ConversationChanges): Step {
    return { atMs: this.#nowMs, action: { kind: 'change', changes } };
  }

  #draft(sender: Sender, content: string): MessageDraft {
    this.#messages++;
    if (sender === 'agent') this.#answered = true;
    const author = sender === 'agent' ? this.#agent : sender === 'bot' ? this.#random.pick(bots) : null;
    return { sender, content: capitalized(content), author, metadata: {} };
  }

  #later(medianMs: number, sigma: number): void {
    this.#nowMs += Math.max(1_000, Math.floor(this.#random.logNormal(medianMs, sigma)));
  }

  #agentWaits(medianMs: number): void {
    this.#later(medianMs, 1);
    this.#nowMs = atWork(this.#random, this.#nowMs);
  }

  /** Most visitors answer at once, some hours later. */
  #visitorWaits(): void {
    if (this.#random.chance(0.07)) this.#later(6 * hourMs, 0.8);
    else this.#later(75_000, 1.1);
  }
}

function capitalized(text: string): string {
  const first = text.charAt(0);
  const capital = first.toUpperCase();
  return first === capital ? text : capital + text.slice(1);
}

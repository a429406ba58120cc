import { expect } from 'vitest';
import type { AnalyticsFigures } from '../../src/domain/analytics-shape.ts';

// The figures that the analytics of an account have to show, counted change by change as a test makes the changes.

export type Sender = 'agent' | 'visitor' | 'bot';
export type Status = 'active' | 'pending' | 'closed';

/** What is counted. */
type Counter =
  | 'conversationsStarted'
  | 'conversationsClosed'
  | 'conversationsReopened'
  | 'converted'
  | 'leads'
  | Sender;

/** What is timed: its duration is counted with it. */
type Timer = 'firstResponse' | 'resolution';

interface Count {
  readonly atMs: number;
  readonly of: Counter | Timer;
  readonly durationMs?: number;
}

/** The counts over all time, and the sums of the durations. */
export type Totals = Record<Count['of'] | `${Timer}Ms`, number>;

/** What of a conversation decides which figures a change of it adds to. */
export interface ConversationState {
  readonly createdMs: number;
  openedMs: number;
  status: Status;
  visitorWroteMs: number | undefined;
  answered: boolean;
  hasLead: boolean;
}

export class ExpectedFigures {
  readonly totals: Totals = {
    conversationsStarted: 0,
    conversationsClosed: 0,
    conversationsReopened: 0,
    converted: 0,
    agent: 0,
    visitor: 0,
    bot: 0,
    leads: 0,
    firstResponse: 0,
    firstResponseMs: 0,
    resolution: 0,
    resolutionMs: 0,
  };
  readonly #counts: Count[] = [];

  conversationStarted(first: Sender | undefined, atMs: number): ConversationState {
    const conversation: ConversationState = {
      createdMs: atMs,
      openedMs: atMs,
      status: first === 'visitor' ? 'pending' : 'active',
      visitorWroteMs: undefined,
      answered: false,
      hasLead: false,
    };
    this.#count(atMs, 'conversationsStarted');
    if (first !== undefined) this.#countMessage(conversation, first, atMs);
    return conversation;
  }

  /** The caller sees to it that the sender may write: to a closed conversation only a visitor. */
  messageSent(conversation: ConversationState, sender: Sender, atMs: number): void {
    if (conversation.status === 'closed') {
      this.#countReopening(conversation, atMs);
      conversation.status = 'pending';
    }
    if (sender === 'agent') conversation.status = 'active';
    this.#countMessage(conversation, sender, atMs);
  }

  statusChanged(conversation: ConversationState, to: Status, atMs: number): void {
    if (to === 'closed' && conversation.status !== 'closed') {
      this.#count(atMs, 'conversationsClosed');
      this.#time(atMs, 'resolution', conversation.openedMs);
    }
    if (to === 'active' && conversation.status === 'closed') this.#countReopening(conversation, atMs);
    conversation.status = to;
  }

  /** @param conversation the one that the lead was captured in, if any */
  leadCaptured(conversation: ConversationState | undefined, atMs: number): void {
    this.#count(atMs, 'leads');
    if (conversation === undefined) return;
    if (!conversation.hasLead) this.#count(conversation.createdMs, 'converted');
    conversation.hasLead = true;
  }

  /** Compares reported figures with the counts of the time that they are of. */
  check(figures: AnalyticsFigures): void {
    const [fromMs, toMs] = [Date.parse(figures.from), Date.parse(figures.to)];
    const within = this.#counts.filter(({ atMs }) => fromMs <= atMs && atMs < toMs);
    const count = (counter: Counter) => within.filter(({ of }) => of === counter).length;
    const started = count('conversationsStarted');
    const { firstResponseSeconds, resolutionSeconds, ...counts } = figures;
    expect(counts).toEqual({
      from: figures.from,
      to: figures.to,
      conversationsStarted: started,
      conversationsClosed: count('conversationsClosed'),
      conversationsReopened: count('conversationsReopened'),
      messages: { agent: count('agent'), visitor: count('visitor'), bot: count('bot') },
      leads: count('leads'),
      conversionRate: started === 0 ? null : count('converted') / started,
    });
    const durations = (timer: Timer) =>
      within.flatMap(({ of, durationMs = 0 }) => (of === timer ? [durationMs / 1_000] : []));
    checkDurations(firstResponseSeconds, durations('firstResponse'));
    checkDurations(resolutionSeconds, durations('resolution'));
  }

  #countMessage(conversation: ConversationState, who: Sender, atMs: number): void {
    this.#count(atMs, who);
    if (who === 'visitor') conversation.visitorWroteMs ??= atMs;
    if (who === 'agent' && conversation.visitorWroteMs !== undefined && !conversation.answered) {
      conversation.answered = true;
      this.#time(atMs, 'firstResponse', conversation.visitorWroteMs);
    }
  }

  #countReopening(conversation: ConversationState, atMs: number): void {
    conversation.openedMs = atMs;
    this.#count(atMs, 'conversationsReopened');
  }

  #count(atMs: number, counter: Counter): void {
    this.totals[counter]++;
    this.#counts.push({ atMs, of: counter });
  }

  #time(atMs: number, timer: Timer, sinceMs: number): void {
    const durationMs = Math.max(0, atMs - sinceMs);
    this.totals[timer]++;
    this.totals[`${timer}Ms`] += durationMs;
    this.#counts.push({ atMs, of: timer, durationMs });
  }
}

export function checkDurations(figures: AnalyticsFigures['resolutionSeconds'], seconds: readonly number[]): void {
  const { length } = seconds;
  if (length === 0) {
    expect(figures).toEqual({ count: 0, mean: null, median: null, p90: null });
    return;
  }
  const sorted = [...seconds].sort((a, b) => a - b);
  const quantile = (fraction: number): number => {
    const place = (length - 1) * fraction;
    const [low, high] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
    return low + (high - low) * (place % 1);
  };
  expect(figures.count).toBe(length);
  expect(figures.mean).toBeCloseTo(seconds.reduce((sum, each) => sum + each, 0) / length, 6);
  for (const [reported, exact] of [
    [figures.median, quantile(0.5)],
    [figures.p90, quantile(0.9)],
  ] as const) {
    expect(Math.abs((reported as number) - exact), `${reported} for ${exact}`).toBeLessThanOrEqual(exact * 0.01 + 1e-9);
  }
}

import { expect } from 'vitest';
import type { AnalyticsFigures } from '../../src/domain/analytics-shape.ts';

// What has happened in an account, written down thing by thing, so that it can be counted up beside what the
// service says of it.

export type Sender = 'agent' | 'visitor' | 'bot';
export type Status = 'active' | 'pending' | 'closed';

type Counted =
  | 'conversationsStarted'
  | 'conversationsClosed'
  | 'conversationsReopened'
  | 'converted'
  | 'leads'
  | Sender;

interface Happening {
  readonly atMs: number;
  readonly what: Counted | 'firstResponse' | 'resolution';
  readonly durationMs?: number;
}

/** How often each thing has happened, and how long those took that take time. */
export type Totals = Record<Happening['what'] | 'firstResponseMs' | 'resolutionMs', number>;

/** What of a conversation decides what counts. */
export interface Life {
  readonly createdMs: number;
  openedMs: number;
  status: Status;
  visitorWroteMs: number | undefined;
  answered: boolean;
  hasLead: boolean;
}

export class Annals {
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
  readonly #happenings: Happening[] = [];

  started(first: Sender | undefined, atMs: number): Life {
    const life: Life = {
      createdMs: atMs,
      openedMs: atMs,
      status: first === 'visitor' ? 'pending' : 'active',
      visitorWroteMs: undefined,
      answered: false,
      hasLead: false,
    };
    this.#note(atMs, 'conversationsStarted');
    if (first !== undefined) this.#said(life, first, atMs);
    return life;
  }

  /** Somebody may write who may: only a visitor when it is closed. */
  wrote(life: Life, sender: Sender, atMs: number): void {
    if (life.status === 'closed') {
      this.#reopened(life, atMs);
      life.status = 'pending';
    }
    if (sender === 'agent') life.status = 'active';
    this.#said(life, sender, atMs);
  }

  changed(life: Life, to: Status, atMs: number): void {
    if (to === 'closed' && life.status !== 'closed') {
      this.#note(atMs, 'conversationsClosed');
      this.#took(atMs, 'resolution', life.openedMs);
    }
    if (to === 'active' && life.status === 'closed') this.#reopened(life, atMs);
    life.status = to;
  }

  /** @param life the conversation that the lead was left in, if it was in one */
  captured(life: Life | undefined, atMs: number): void {
    this.#note(atMs, 'leads');
    if (life === undefined) return;
    if (!life.hasLead) this.#note(life.createdMs, 'converted');
    life.hasLead = true;
  }

  /** Counts up what happened in the time that the figures are of, and compares each. */
  check(figures: AnalyticsFigures): void {
    const [fromMs, toMs] = [Date.parse(figures.from), Date.parse(figures.to)];
    const within = this.#happenings.filter(({ atMs }) => fromMs <= atMs && atMs < toMs);
    const count = (what: Counted) => within.filter((happening) => happening.what === what).length;
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
    const durations = (what: Happening['what']) =>
      within.flatMap((happening) => (happening.what === what ? [(happening.durationMs ?? 0) / 1_000] : []));
    checkDurations(firstResponseSeconds, durations('firstResponse'));
    checkDurations(resolutionSeconds, durations('resolution'));
  }

  #said(life: Life, who: Sender, atMs: number): void {
    this.#note(atMs, who);
    if (who === 'visitor') life.visitorWroteMs ??= atMs;
    if (who === 'agent' && life.visitorWroteMs !== undefined && !life.answered) {
      life.answered = true;
      this.#took(atMs, 'firstResponse', life.visitorWroteMs);
    }
  }

  #reopened(life: Life, atMs: number): void {
    life.openedMs = atMs;
    this.#note(atMs, 'conversationsReopened');
  }

  #note(atMs: number, what: Counted): void {
    this.totals[what]++;
    this.#happenings.push({ atMs, what });
  }

  #took(atMs: number, what: 'firstResponse' | 'resolution', sinceMs: number): void {
    const durationMs = Math.max(0, atMs - sinceMs);
    this.totals[what]++;
    this.totals[`${what}Ms`] += durationMs;
    this.#happenings.push({ atMs, what, durationMs });
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
  for (const [told, exact] of [
    [figures.median, quantile(0.5)],
    [figures.p90, quantile(0.9)],
  ] as const) {
    expect(Math.abs((told as number) - exact), `${told} for ${exact}`).toBeLessThanOrEqual(exact * 0.01 + 1e-9);
  }
}

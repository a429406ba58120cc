import fc from 'fast-check';
import { expect } from 'vitest';
import type { AnalyticsFigures } from '../../src/domain/analytics-shape.ts';
import type { Caller } from '../../src/domain/caller.ts';
import { scopes } from '../../src/domain/caller.ts';
import { createConversation, updateConversation } from '../../src/domain/conversations.ts';
import { captureLead } from '../../src/domain/leads.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import type { TestAccount, TestServer } from '../support/server.ts';

// Random lives of an account's conversations, played through the operations beside a model that notes
// down each thing that happens, and can count them all when it is asked.

type Sender = 'agent' | 'visitor' | 'bot';
type Status = 'active' | 'pending' | 'closed';

type Command =
  | { readonly kind: 'create'; readonly first: Sender | undefined }
  // Which of the conversations there are, around the end of their list.
  | { readonly kind: 'message'; readonly which: number; readonly sender: Sender }
  | { readonly kind: 'status'; readonly which: number; readonly to: Status }
  | { readonly kind: 'lead'; readonly which: number | undefined };

export interface Step {
  /** How much later than the step before, negative where the clock is set back. */
  readonly laterMs: number;
  readonly command: Command;
}

const sender = fc.constantFrom<Sender>('agent', 'visitor', 'bot');
const which = fc.oneof(fc.nat(1), fc.nat(7));
const command = fc.oneof<fc.Arbitrary<Command>[]>(
  fc.record({ kind: fc.constant('create' as const), first: fc.option(sender, { nil: undefined }) }),
  fc.record({ kind: fc.constant('message' as const), which, sender }),
  fc.record({ kind: fc.constant('message' as const), which, sender }),
  fc.record({ kind: fc.constant('status' as const), which, to: fc.constantFrom<Status>('active', 'pending') }),
  fc.record({ kind: fc.constant('status' as const), which, to: fc.constant('closed' as const) }),
  fc.record({ kind: fc.constant('lead' as const), which: fc.option(which, { nil: undefined }) }),
);

const minuteMs = 60_000;
const forwards = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 90 * minuteMs }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 40 * 60 * minuteMs }) },
);

export function histories({ clockGoesBack }: { clockGoesBack: boolean }): fc.Arbitrary<Step[]> {
  const laterMs = clockGoesBack
    ? fc.oneof(
        { weight: 9, arbitrary: forwards },
        { weight: 1, arbitrary: fc.integer({ min: -40 * minuteMs, max: 0 }) },
      )
    : forwards;
  return fc.array(fc.record({ laterMs, command }), { minLength: 5, maxLength: 80, size: 'max' });
}

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

interface Life {
  readonly id: string;
  readonly createdMs: number;
  openedMs: number;
  status: Status;
  visitorWroteMs: number | undefined;
  answered: boolean;
  hasLead: boolean;
}

/** Plays a history on a new account, and notes down what happens. */
export class Chronicle {
  readonly happenings: Happening[] = [];
  readonly #server: TestServer;
  readonly #lives: Life[] = [];
  readonly caller: Caller;

  constructor(server: TestServer, { account }: TestAccount) {
    this.#server = server;
    this.caller = { account, keyId: 'test', credential: 'key', scopes: new Set(scopes) };
  }

  get openNow(): { active: number; pending: number } {
    const count = (status: Status) => this.#lives.filter((life) => life.status === status).length;
    return { active: count('active'), pending: count('pending') };
  }

  async play(steps: readonly Step[]): Promise<void> {
    for (const { laterMs, command: next } of steps) {
      this.#server.clock.advance(laterMs);
      await this.#do(next, this.#server.clock.nowMs);
    }
  }

  async #do(next: Command, nowMs: number): Promise<void> {
    const { world } = this.#server.app;
    const life = 'which' in next && next.which !== undefined ? this.#lives[next.which % this.#lives.length] : undefined;
    if (next.kind === 'create') {
      const message = next.first === undefined ? undefined : { content: 'x', sender: next.first };
      const { conversation } = await createConversation.execute(world, this.caller, message ? { message } : {});
      const born: Life = {
        id: conversation.id,
        createdMs: nowMs,
        openedMs: nowMs,
        status: next.first === 'visitor' ? 'pending' : 'active',
        visitorWroteMs: undefined,
        answered: false,
        hasLead: false,
      };
      this.#lives.push(born);
      this.#note(nowMs, 'conversationsStarted');
      if (next.first !== undefined) this.#says(born, next.first, nowMs);
    } else if (next.kind === 'lead') {
      if (next.which !== undefined && life === undefined) return;
      const of = life === undefined ? {} : { conversationId: life.id };
      await captureLead.execute(world, this.caller, { ...of, email: 'a@example.com' });
      this.#note(nowMs, 'leads');
      if (life !== undefined && !life.hasLead) this.#note(life.createdMs, 'converted');
      if (life !== undefined) life.hasLead = true;
    } else if (life !== undefined && next.kind === 'message') {
      const sending = sendMessage.execute(world, this.caller, {
        conversationId: life.id,
        content: 'x',
        sender: next.sender,
      });
      if (life.status === 'closed' && next.sender !== 'visitor') {
        await expect(sending).rejects.toMatchObject({ code: 'CONVERSATION_CLOSED' });
        return;
      }
      await sending;
      if (life.status === 'closed') {
        this.#reopened(life, nowMs);
        life.status = 'pending';
      }
      if (next.sender === 'agent') life.status = 'active';
      this.#says(life, next.sender, nowMs);
    } else if (life !== undefined && next.kind === 'status') {
      const changing = updateConversation.execute(world, this.caller, { id: life.id, status: next.to });
      if (life.status === 'closed' && next.to === 'pending') {
        await expect(changing).rejects.toMatchObject({ code: 'INVALID_TRANSITION' });
        return;
      }
      await changing;
      if (next.to === 'closed' && life.status !== 'closed') {
        this.#note(nowMs, 'conversationsClosed');
        this.#note(nowMs, 'resolution', nowMs - life.openedMs);
      }
      if (life.status === 'closed' && next.to === 'active') this.#reopened(life, nowMs);
      life.status = next.to;
    }
  }

  #says(life: Life, who: Sender, nowMs: number): void {
    this.#note(nowMs, who);
    if (who === 'visitor') life.visitorWroteMs ??= nowMs;
    if (who === 'agent' && life.visitorWroteMs !== undefined && !life.answered) {
      life.answered = true;
      this.#note(nowMs, 'firstResponse', nowMs - life.visitorWroteMs);
    }
  }

  #reopened(life: Life, nowMs: number): void {
    life.openedMs = nowMs;
    this.#note(nowMs, 'conversationsReopened');
  }

  #note(atMs: number, what: Happening['what'], durationMs?: number): void {
    this.happenings.push({ atMs, what, ...(durationMs !== undefined && { durationMs: Math.max(0, durationMs) }) });
  }

  /** Counts up what happened in the time that the figures are of, and compares each. */
  check(figures: AnalyticsFigures): void {
    const [fromMs, toMs] = [Date.parse(figures.from), Date.parse(figures.to)];
    const within = this.happenings.filter(({ atMs }) => fromMs <= atMs && atMs < toMs);
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

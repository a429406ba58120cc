import fc from 'fast-check';
import { expect } from 'vitest';
import { type Caller, operatorOf } from '../../src/domain/caller.ts';
import { createConversation, updateConversation } from '../../src/domain/conversations.ts';
import { captureLead } from '../../src/domain/leads.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { minuteMs } from '../support/clock.ts';
import { type ConversationState, ExpectedFigures, type Sender, type Status } from '../support/expected-figures.ts';
import type { TestAccount, TestServer } from '../support/server.ts';

// Random histories of an account's conversations, played through the operations. The figures that its analytics have to
// show are counted beside them.

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

const laterMs = fc.oneof(
  { weight: 27, arbitrary: fc.integer({ min: 0, max: 2_000 }) },
  { weight: 27, arbitrary: fc.integer({ min: 0, max: 90 * minuteMs }) },
  { weight: 9, arbitrary: fc.integer({ min: 0, max: 40 * 60 * minuteMs }) },
  { weight: 7, arbitrary: fc.integer({ min: -40 * minuteMs, max: 0 }) }, // the clock goes back
);

export const histories: fc.Arbitrary<Step[]> = fc.array(fc.record({ laterMs, command }), {
  minLength: 5,
  maxLength: 80,
  size: 'max',
});

/** Plays a history on a new account, and counts the figures that it has to give. */
export class HistoryPlayer {
  readonly figures = new ExpectedFigures();
  readonly #server: TestServer;
  readonly #conversations: (ConversationState & { readonly id: string; changedMs: number })[] = [];
  readonly caller: Caller;

  constructor(server: TestServer, { account }: TestAccount) {
    this.#server = server;
    this.caller = operatorOf(account);
  }

  get openNow(): { active: number; pending: number } {
    const count = (status: Status) => this.#conversations.filter((each) => each.status === status).length;
    return { active: count('active'), pending: count('pending') };
  }

  async play(steps: readonly Step[]): Promise<void> {
    for (const { laterMs, command: next } of steps) {
      this.#server.clock.advance(laterMs);
      await this.#do(next, this.#server.clock.nowMs);
    }
  }

  async #do(next: Command, nowMs: number): Promise<void> {
    const { ports } = this.#server.app;
    const conversation =
      'which' in next && next.which !== undefined
        ? this.#conversations[next.which % this.#conversations.length]
        : undefined;
    // Where a clock has gone back, a change is a millisecond after the one that it follows.
    const changedMs = conversation?.changedMs ?? 0;
    const atMs = nowMs < changedMs ? changedMs + 1 : nowMs;
    if (next.kind === 'create') {
      const message = next.first === undefined ? undefined : { content: 'x', sender: next.first };
      const created = await createConversation.execute(ports, this.caller, message ? { message } : {});
      this.#conversations.push({
        id: created.conversation.id,
        changedMs: nowMs,
        ...this.figures.conversationStarted(next.first, nowMs),
      });
    } else if (next.kind === 'lead') {
      if (next.which !== undefined && conversation === undefined) return;
      const of = conversation === undefined ? {} : { conversationId: conversation.id };
      await captureLead.execute(ports, this.caller, { ...of, email: 'a@example.com' });
      this.figures.leadCaptured(conversation, atMs);
    } else if (conversation !== undefined && next.kind === 'message') {
      const sending = sendMessage.execute(ports, this.caller, {
        conversationId: conversation.id,
        content: 'x',
        sender: next.sender,
      });
      if (conversation.status === 'closed' && next.sender !== 'visitor') {
        await expect(sending).rejects.toMatchObject({ code: 'CONVERSATION_CLOSED' });
        return;
      }
      await sending;
      this.figures.messageSent(conversation, next.sender, atMs);
      conversation.changedMs = atMs;
    } else if (conversation !== undefined && next.kind === 'status') {
      const changing = updateConversation.execute(ports, this.caller, { id: conversation.id, status: next.to });
      if (conversation.status === 'closed' && next.to === 'pending') {
        await expect(changing).rejects.toMatchObject({ code: 'INVALID_TRANSITION' });
        return;
      }
      await changing;
      if (next.to !== conversation.status) conversation.changedMs = atMs;
      this.figures.statusChanged(conversation, next.to, atMs);
    }
  }
}

import type { StoredConversation } from './conversation.ts';
import { type DurationTally, tallyOfAll } from './durations.ts';
import type { Lead } from './leads.ts';
import type { Message, Sender } from './messages.ts';
import type { Transaction } from './storage-port.ts';
import type { Timestamp } from './time.ts';

// What analytics counts, as it happens: in quarter hours, in the transaction of the change itself. So a
// report costs the same whatever history there is, and still holds when what it is of has been erased.

export const quarterMs = 15 * 60_000;

/** The quarter hour that a time lies in, counted from the epoch. */
export function quarterOf(epochMs: number): number {
  return Math.floor(epochMs / quarterMs);
}

export const countNames = [
  'conversationsStarted',
  'conversationsClosed',
  'conversationsReopened',
  /** Of the conversations started in the quarter, those that have had a lead since. */
  'conversationsConverted',
  'agentMessages',
  'visitorMessages',
  'botMessages',
  'leads',
] as const;
export type CountName = (typeof countNames)[number];

/** What one change adds to a quarter hour. */
export interface Happenings extends Partial<Readonly<Record<CountName, number>>> {
  /** How long a visitor had waited for the first response, when this was one; in milliseconds. */
  readonly firstResponseMs?: number;
  /** How long a conversation had been open, when this closed it; in milliseconds. */
  readonly resolutionMs?: number;
}

/** All that happened in a range of quarter hours. */
export interface HappeningSums extends Readonly<Record<CountName, number>> {
  readonly firstResponses: DurationTally;
  readonly resolutions: DurationTally;
}

/** What sums of ranges beside each other come to together. */
export function sumsOfAll(sums: readonly HappeningSums[]): HappeningSums {
  const counts = countNames.map((name) => [name, sums.reduce((sum, each) => sum + each[name], 0)]);
  return {
    ...(Object.fromEntries(counts) as Record<CountName, number>),
    firstResponses: tallyOfAll(sums.map(({ firstResponses }) => firstResponses)),
    resolutions: tallyOfAll(sums.map(({ resolutions }) => resolutions)),
  };
}

/** Quarter hours from the first, included, to the last, excluded. */
export interface QuarterRange {
  readonly from: number;
  readonly to: number;
}

const messagesOf = {
  agent: 'agentMessages',
  visitor: 'visitorMessages',
  bot: 'botMessages',
} as const satisfies Record<Sender, CountName>;

/**
 * What a change of a conversation counts as.
 * @param previous the conversation before, undefined when it was started by the change
 * @param message the message that the change brought, if it did
 */
export function happeningsOf(
  previous: StoredConversation | undefined,
  next: StoredConversation,
  message?: Message,
): Happenings {
  const wasClosed = previous?.status === 'closed';
  const isClosed = next.status === 'closed';
  return {
    ...(previous === undefined && { conversationsStarted: 1 }),
    ...(message !== undefined && { [messagesOf[message.sender]]: 1 }),
    ...(wasClosed && !isClosed && { conversationsReopened: 1 }),
    ...(isClosed &&
      !wasClosed && {
        conversationsClosed: 1,
        resolutionMs: elapsedMs(next.reopenedAt ?? next.createdAt, next.closedAt),
      }),
    ...(next.firstResponseAt !== null &&
      previous?.firstResponseAt === null && {
        firstResponseMs: elapsedMs(next.firstVisitorMessageAt, next.firstResponseAt),
      }),
  };
}

/** A clock that was set back must not make a duration negative. */
function elapsedMs(from: Timestamp | null, to: Timestamp | null): number {
  return from === null || to === null ? 0 : Math.max(0, Date.parse(to) - Date.parse(from));
}

/** Counts what has happened at a time, if anything has. */
export async function countHappenings(
  tx: Pick<Transaction, 'analytics'>,
  accountId: string,
  at: Timestamp,
  happenings: Happenings,
): Promise<void> {
  if (Object.keys(happenings).length === 0) return;
  await tx.analytics.add(accountId, quarterOf(Date.parse(at)), happenings);
}

/**
 * Counts a lead. The first of a conversation converts it, and that is counted where the conversation was
 * started: only so can a rate be kept that is of the conversations of a period.
 */
export async function countLead(
  tx: Pick<Transaction, 'analytics' | 'conversations'>,
  accountId: string,
  lead: Lead,
  conversation: StoredConversation | null,
): Promise<void> {
  const converts = conversation !== null && (await tx.conversations.markConverted(accountId, conversation.id));
  const startedAt = converts ? conversation.createdAt : lead.createdAt;
  const together = quarterOf(Date.parse(startedAt)) === quarterOf(Date.parse(lead.createdAt));
  await countHappenings(tx, accountId, lead.createdAt, {
    leads: 1,
    ...(converts && together && { conversationsConverted: 1 }),
  });
  if (converts && !together) await countHappenings(tx, accountId, startedAt, { conversationsConverted: 1 });
}

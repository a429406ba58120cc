import type { StoredConversation } from './conversation-record.ts';
import { type DurationTally, tallyOfAll } from './durations.ts';
import type { Lead } from './leads.ts';
import type { Message, Sender } from './message-record.ts';
import type { Transaction } from './storage-port.ts';
import type { Timestamp } from './time.ts';

// What analytics counts, in buckets of a quarter hour, within the transaction of each change. So the cost of a report
// does not depend on the amount of history, and its figures survive erasures.

export const quarterMs = 15 * 60_000;

/** The quarter hour that contains a time, counted from the epoch. */
export function quarterOf(epochMs: number): number {
  return Math.floor(epochMs / quarterMs);
}

export const countNames = [
  'conversationsStarted',
  'conversationsClosed',
  'conversationsReopened',
  /** Conversations started in the quarter hour that have had a lead since. */
  'conversationsConverted',
  'agentMessages',
  'visitorMessages',
  'botMessages',
  'leads',
] as const;
export type CountName = (typeof countNames)[number];

/** What one change adds to a quarter hour. */
export interface AnalyticsDelta extends Partial<Readonly<Record<CountName, number>>> {
  /** Set by a first response: how long the visitor had waited for it. */
  readonly firstResponseMs?: number;
  /** Set by a closing: how long the conversation had been open. */
  readonly resolutionMs?: number;
}

/** All that happened in a range of quarter hours. */
export interface AnalyticsSums extends Readonly<Record<CountName, number>> {
  readonly firstResponses: DurationTally;
  readonly resolutions: DurationTally;
}

/** The sum over several ranges. */
export function sumsOfAll(sums: readonly AnalyticsSums[]): AnalyticsSums {
  const counts = countNames.map((name) => [name, sums.reduce((sum, each) => sum + each[name], 0)]);
  return {
    ...(Object.fromEntries(counts) as Record<CountName, number>),
    firstResponses: tallyOfAll(sums.map(({ firstResponses }) => firstResponses)),
    resolutions: tallyOfAll(sums.map(({ resolutions }) => resolutions)),
  };
}

/** Quarter hours, `from` included and `to` excluded. */
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
 * What a change of a conversation adds to the counts.
 * @param previous undefined if the change created the conversation
 * @param message the message that the change added, if any
 */
export function deltaOf(
  previous: StoredConversation | undefined,
  next: StoredConversation,
  message?: Message,
): AnalyticsDelta {
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

/** Never negative, even if the clock was set back. */
function elapsedMs(from: Timestamp | null, to: Timestamp | null): number {
  return from === null || to === null ? 0 : Math.max(0, Date.parse(to) - Date.parse(from));
}

export async function addToAnalytics(
  tx: Pick<Transaction, 'analytics'>,
  accountId: string,
  at: Timestamp,
  delta: AnalyticsDelta,
): Promise<void> {
  if (Object.keys(delta).length === 0) return;
  await tx.analytics.add(accountId, quarterOf(Date.parse(at)), delta);
}

/**
 * Counts a lead. The first lead of a conversation converts it. Conversions are counted in the quarter hour in which the
 * conversation was started, since the conversion rate of a period is that of the conversations started in it.
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
  await addToAnalytics(tx, accountId, lead.createdAt, {
    leads: 1,
    ...(converts && together && { conversationsConverted: 1 }),
  });
  if (converts && !together) await addToAnalytics(tx, accountId, startedAt, { conversationsConverted: 1 });
}

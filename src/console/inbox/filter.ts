import type { Row, Status } from '../records.ts';

/** Which conversations the inbox shows. */
export interface Filter {
  readonly status: keyof typeof statusesOf;
  readonly assignee: 'anybody' | 'mine' | 'nobody';
  /** Only those with messages that the agent has not read. */
  readonly isUnread: boolean;
  /** Empty for any. */
  readonly tag: string;
}

export const firstFilter: Filter = { status: 'open', assignee: 'anybody', isUnread: false, tag: '' };

const statusesOf = {
  open: ['ACTIVE', 'PENDING'],
  pending: ['PENDING'],
  active: ['ACTIVE'],
  closed: ['CLOSED'],
  all: undefined,
} as const satisfies Record<string, readonly Status[] | undefined>;

/** The filter as variables of the documents. */
export function variablesOf({ status, assignee, isUnread, tag }: Filter, agent: string) {
  return {
    agent,
    statuses: statusesOf[status],
    assigneeId: assignee === 'mine' ? agent : undefined,
    unassigned: assignee === 'nobody' ? true : undefined,
    unreadBy: isUnread ? agent : undefined,
    tags: tag === '' ? undefined : [tag],
  };
}

/** Whether a conversation is one of those that the filter shows. */
export function matches({ status, assignee, isUnread, tag }: Filter, row: Row, agent: string): boolean {
  const statuses: readonly Status[] | undefined = statusesOf[status];
  return (
    (statuses?.includes(row.status) ?? true) &&
    (assignee === 'anybody' || (assignee === 'mine' ? row.assignee?.id === agent : row.assignee === null)) &&
    (!isUnread || (row.unreadCount ?? 0) > 0) &&
    (tag === '' || row.tags.includes(tag))
  );
}

import { useEffect, useState } from 'preact/hooks';
import type { ExcerptPart, Row } from '../records.ts';
import { Badge, Button, Empty, Failure, Time } from '../ui.tsx';
import type { Filter } from './filter.ts';
import type { Inbox } from './inbox.ts';
import { titleOf } from './rows.ts';

/** How long nothing must have been typed before it is searched for. */
const pauseMs = 250;

interface Props {
  readonly inbox: Inbox;
  readonly openId: string | undefined;
  /** Whether the list follows the events. */
  readonly isLive: boolean;
}

export function ListView({ inbox, openId, isLive }: Props) {
  const { list, search } = inbox;
  const isSearch = search.words !== '';
  const source = isSearch ? search : list;
  const rows: readonly { key: string; row: Row; excerpt?: readonly ExcerptPart[] }[] = isSearch
    ? search.results
    : list.rows.map((row) => ({ key: row.id, row }));
  return (
    <>
      <header class="list-head">
        <div class="title-line">
          <h2 tabIndex={-1}>Conversations</h2>
          <p class="hint" role="status">
            {source.isLoading ? 'Loading …' : countOf(rows.length, source.hasMore, isSearch)}
          </p>
          {!isLive && <Button onClick={() => inbox.reload()}>Refresh</Button>}
        </div>
        <SearchField inbox={inbox} />
        <Filters inbox={inbox} />
        {inbox.notSent.map((id) => {
          const row = list.find(id);
          return (
            <p key={id} class="failure" role="alert">
              Not sent: <a href={`#/inbox/${id}`}>a message to {row ? titleOf(row) : 'a conversation'}</a>
            </p>
          );
        })}
      </header>
      <div class="rows">
        {source.error !== undefined && <Failure error={source.error} retry={() => void inbox.retry()} />}
        {rows.length > 0 && (
          <ul>
            {rows.map(({ key, row, excerpt }) => (
              <li key={key}>
                <RowLink row={row} excerpt={excerpt} isOpen={row.id === openId} />
              </li>
            ))}
          </ul>
        )}
        {rows.length === 0 && !source.hasMore && !source.isLoading && source.error === undefined && (
          <Empty>{isSearch ? 'Nothing found with this filter.' : 'No conversations with this filter.'}</Empty>
        )}
        {source.hasMore && (
          <p class="more">
            <Button disabled={source.isLoading} onClick={() => source.loadMore()}>
              Load more
            </Button>
          </p>
        )}
        {!isSearch && list.isFull && <Empty>These are the latest 500. Search or filter to see others.</Empty>}
      </div>
    </>
  );
}

function countOf(count: number, hasMore: boolean, isSearch: boolean): string {
  const things = isSearch ? (count === 1 ? 'result' : 'results') : count === 1 ? 'conversation' : 'conversations';
  return hasMore ? `${count} ${things}, and more` : `${count} ${things}`;
}

function SearchField({ inbox }: Pick<Props, 'inbox'>) {
  const [words, setWords] = useState(inbox.search.words);
  useEffect(() => {
    if (words.trim() === inbox.search.words) return undefined;
    const timer = setTimeout(() => void inbox.find(words), pauseMs);
    return () => clearTimeout(timer);
  }, [inbox, words]);
  return (
    <search>
      <input
        type="search"
        aria-label="Search messages, subjects and visitors"
        placeholder="Search"
        maxLength={256}
        value={words}
        onInput={({ currentTarget }) => setWords(currentTarget.value)}
      />
    </search>
  );
}

function Filters({ inbox }: Pick<Props, 'inbox'>) {
  const { filter } = inbox.list;
  const set = (change: Partial<Filter>): void => void inbox.filter({ ...filter, ...change });
  return (
    <fieldset class="filters">
      <legend class="unseen">Filter</legend>
      <select
        aria-label="Status"
        value={filter.status}
        onChange={({ currentTarget }) => set({ status: currentTarget.value as Filter['status'] })}
      >
        <option value="open">Not closed</option>
        <option value="pending">Pending</option>
        <option value="active">Active</option>
        <option value="closed">Closed</option>
        <option value="all">Any status</option>
      </select>
      <select
        aria-label="Assignee"
        value={filter.assignee}
        onChange={({ currentTarget }) => set({ assignee: currentTarget.value as Filter['assignee'] })}
      >
        <option value="anybody">Anybody’s</option>
        <option value="mine">Mine</option>
        <option value="nobody">Unassigned</option>
      </select>
      <input
        type="text"
        aria-label="Tag"
        placeholder="Tag"
        maxLength={50}
        defaultValue={filter.tag}
        onChange={({ currentTarget }) => set({ tag: currentTarget.value.trim() })}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={filter.isUnread}
          onChange={({ currentTarget }) => set({ isUnread: currentTarget.checked })}
        />
        Unread
      </label>
    </fieldset>
  );
}

interface RowProps {
  readonly row: Row;
  readonly excerpt: readonly ExcerptPart[] | undefined;
  readonly isOpen: boolean;
}

/** A row shows so many tags, and how many more there are: it would be as tall as five others. */
const mostTags = 4;

function RowLink({ row, excerpt, isOpen }: RowProps) {
  const title = titleOf(row);
  const unread = row.unreadCount ?? 0;
  const subject = row.subject !== null && row.subject !== title ? row.subject : undefined;
  return (
    <a
      class={unread > 0 ? 'entry is-unread' : 'entry'}
      href={`#/inbox/${encodeURIComponent(row.id)}`}
      aria-current={isOpen ? 'true' : undefined}
    >
      <span class="line">
        <span class="name">{title}</span>
        <Time at={row.lastActivityAt} />
      </span>
      {subject && <span class="subject">{subject}</span>}
      <span class="line">
        <span class={excerpt ? 'preview is-excerpt' : 'preview'}>
          {excerpt ? excerpt.map((part, at) => <Part key={at} {...part} />) : previewOf(row)}
        </span>
        {unread > 0 && (
          <span class="unread">
            {unread}
            <span class="unseen"> unread</span>
          </span>
        )}
      </span>
      <span class="marks">
        <Badge kind={row.status}>{row.status.toLowerCase()}</Badge>
        {row.assignee && <span>{row.assignee.name ?? row.assignee.id}</span>}
        {row.tags.slice(0, mostTags).map((tag) => (
          <span key={tag} class="tag">
            {tag}
          </span>
        ))}
        {row.tags.length > mostTags && (
          <span>
            +{row.tags.length - mostTags}
            <span class="unseen"> tags</span>
          </span>
        )}
      </span>
    </a>
  );
}

function Part({ text, match }: ExcerptPart) {
  return match ? <mark>{text}</mark> : text;
}

function previewOf({ lastMessage }: Row): string {
  if (lastMessage === null) return 'No messages yet';
  return lastMessage.sender === 'VISITOR' ? lastMessage.preview : `↩ ${lastMessage.preview}`;
}

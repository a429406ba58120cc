import { useEffect, useRef, useState } from 'preact/hooks';
import type { Row } from '../records.ts';
import { Badge, Button, Empty, Failure } from '../ui.tsx';
import type { Inbox } from './inbox.ts';
import { Log } from './log.tsx';
import { titleOf } from './rows.ts';
import type { Thread } from './thread.ts';

export interface ThreadProps {
  readonly inbox: Inbox;
  readonly thread: Thread;
}

export function ThreadView({ inbox, thread }: ThreadProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  const focus = (): void => heading.current?.focus({ preventScroll: true });
  useEffect(focus, []);
  const { row } = thread;
  useEffect(() => {
    // The button that has made a change may be gone, and the reply to a conversation that was closed or deleted.
    if (!thread.isChanging && document.activeElement === document.body) focus();
  }, [thread.isChanging, thread.isGone, row?.status]);
  return (
    <>
      <header class="thread-head">
        <div class="title-line">
          <a class="back" href="#/inbox" aria-label="Back to the list">
            ←
          </a>
          <h2 ref={heading} tabIndex={-1}>
            {row ? titleOf(row) : 'Conversation'}
          </h2>
          {row && !thread.isGone && <Badge kind={row.status}>{row.status.toLowerCase()}</Badge>}
        </div>
        {row && !thread.isGone && <About inbox={inbox} thread={thread} row={row} />}
        <p class="unseen" role="status">
          {thread.isGone ? 'deleted' : row && `${row.status.toLowerCase()}, ${assigneeIn(row, inbox)}`}
        </p>
        {thread.refusal !== undefined && <Failure error={thread.refusal} />}
      </header>
      {thread.isGone ? (
        <Empty>This conversation does not exist, or has been deleted.</Empty>
      ) : (
        <>
          <Log inbox={inbox} thread={thread} />
          <Reply inbox={inbox} thread={thread} />
        </>
      )}
    </>
  );
}

interface AboutProps extends ThreadProps {
  readonly row: Row;
}

/** What the conversation is about, who has it, and what an agent does with it. */
function About({ inbox, thread, row }: AboutProps) {
  const { agent } = inbox;
  const isIdle = inbox.may('conversations:write') && !thread.isChanging;
  const isMine = row.assignee?.id === agent.id;
  return (
    <>
      <div class="actions">
        <span class="assignee">{assigneeIn(row, inbox)}</span>
        {!isMine && (
          <Button disabled={!isIdle} onClick={() => inbox.change({ assignee: { ...agent } }, true)}>
            Assign to me
          </Button>
        )}
        {row.assignee && (
          <Button disabled={!isIdle} onClick={() => inbox.change({ assignee: null }, true)}>
            Unassign
          </Button>
        )}
        {/* With the same key, the one would keep the other’s focus, and Enter pressed twice undo what it did. */}
        {row.status === 'CLOSED' ? (
          <Button key="reopen" disabled={!isIdle} onClick={() => inbox.change({ status: 'ACTIVE' })}>
            Reopen
          </Button>
        ) : (
          <Button key="close" disabled={!isIdle} onClick={() => inbox.change({ status: 'CLOSED' }, true)}>
            Close
          </Button>
        )}
      </div>
      <details class="about">
        <summary>
          <bdi>{row.subject ?? 'No subject'}</bdi>
          {row.tags.map((tag) => (
            <span key={tag} class="tag">
              {tag}
            </span>
          ))}
        </summary>
        <Subject inbox={inbox} subject={row.subject} isIdle={isIdle} />
        <Tags inbox={inbox} tags={row.tags} isIdle={isIdle} />
        <Facts row={row} />
      </details>
    </>
  );
}

function assigneeIn({ assignee }: Row, { agent }: Inbox): string {
  if (assignee === null) return 'Unassigned';
  return `Assigned to ${assignee.id === agent.id ? 'me' : (assignee.name ?? assignee.id)}`;
}

function Subject(props: { readonly inbox: Inbox; readonly subject: string | null; readonly isIdle: boolean }) {
  const { inbox, subject, isIdle } = props;
  /** What is typed, which stays when another agent changes the subject. */
  const [typed, setTyped] = useState<string>();
  const text = (typed ?? subject ?? '').trim();
  const canSave = isIdle && text !== (subject ?? '');
  async function save(): Promise<void> {
    const isSaved = await inbox.change({ subject: text === '' ? null : text });
    if (isSaved) setTyped((now) => (now === typed ? undefined : now));
  }
  return (
    <form
      class="line-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (canSave) void save();
      }}
    >
      <label>
        Subject
        <input
          maxLength={200}
          value={typed ?? subject ?? ''}
          onInput={({ currentTarget: { value } }) => setTyped(value === (subject ?? '') ? undefined : value)}
        />
      </label>
      <button type="submit" aria-disabled={!canSave}>
        Save subject
      </button>
    </form>
  );
}

function Tags(props: { readonly inbox: Inbox; readonly tags: readonly string[]; readonly isIdle: boolean }) {
  const { inbox, tags, isIdle } = props;
  const [text, setText] = useState('');
  const tag = text.trim();
  const canAdd = isIdle && tag !== '';
  async function add(): Promise<void> {
    if (await inbox.change({ addTags: [tag] })) setText((now) => (now === text ? '' : now));
  }
  return (
    <>
      {tags.length > 0 && (
        <ul class="tags" aria-label="Tags">
          {tags.map((each) => (
            <li key={each} class="tag">
              {each}
              <Button
                disabled={!isIdle}
                label={`Remove the tag ${each}`}
                onClick={() => inbox.change({ removeTags: [each] })}
              >
                ×
              </Button>
            </li>
          ))}
        </ul>
      )}
      <form
        class="line-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (canAdd) void add();
        }}
      >
        <label>
          New tag
          <input maxLength={50} value={text} onInput={({ currentTarget }) => setText(currentTarget.value)} />
        </label>
        <button type="submit" aria-disabled={!canAdd}>
          Add tag
        </button>
      </form>
    </>
  );
}

/** What else is known: the visitor as your system knows it, and the metadata. */
function Facts({ row: { id, visitor, metadata = {} } }: { readonly row: Row }) {
  const facts = [
    ['Visitor', visitor?.name],
    ['Email', visitor?.email],
    ['Visitor’s id', visitor?.id],
    ['Conversation', id],
    ...Object.entries(metadata).map(([name, value]) => [name, String(value)]),
  ];
  return (
    <dl class="about-facts">
      {facts.map(
        ([name, value]) =>
          value && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

function Reply({ inbox, thread }: ThreadProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const isClosed = thread.row?.status === 'CLOSED';
  if (!inbox.may('conversations:write'))
    return <Empty>This conversation can only be read: the key lacks the scope conversations:write.</Empty>;
  if (isClosed) return <Empty>This conversation is closed. Reopen it to answer.</Empty>;
  return (
    <form
      class="reply"
      onSubmit={(event) => {
        event.preventDefault();
        inbox.send();
        field.current?.focus();
      }}
    >
      <textarea
        ref={field}
        aria-label="Reply"
        placeholder="Reply …"
        rows={2}
        maxLength={16_384}
        value={inbox.textOf(thread.id)}
        onInput={({ currentTarget }) => inbox.type(thread.id, currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          inbox.send();
        }}
      />
      <button type="submit" class="main" disabled={inbox.textOf(thread.id).trim() === ''}>
        Send
      </button>
    </form>
  );
}

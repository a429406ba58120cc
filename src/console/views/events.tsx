import { useEffect, useState } from 'preact/hooks';
import { type EventOfSocket, ServiceError } from '../../client/index.ts';
import { log, logFields } from '../documents-of-views.ts';
import { type EventTypeName, eventTypeOf, eventTypes } from '../names.ts';
import type { Session } from '../session.ts';
import {
  Badge,
  Button,
  Choices,
  Empty,
  Failure,
  Heading,
  type Page,
  Table,
  Time,
  useAction,
  type ViewProps,
} from '../ui.tsx';

interface Conversation {
  readonly conversationId: string;
  readonly subject: string | null;
  readonly visitor: { readonly name: string | null } | null;
}

interface Change {
  readonly field: string;
  readonly key: string | null;
  readonly from: unknown;
  readonly to: unknown;
}

/** An event, with what is told of it in words. */
interface Entry extends EventOfSocket {
  readonly sequence: number;
  readonly erased: boolean;
  readonly conversation?: Conversation | null;
  readonly conversationId?: string;
  readonly message?: {
    readonly sender: string;
    readonly author: { readonly name: string | null } | null;
    readonly preview: string;
  } | null;
  readonly changes?: readonly Change[] | null;
  readonly readPosition?: { readonly reader: string; readonly sequence: number } | null;
  readonly lead?: { readonly name: string | null; readonly email: string | null; readonly phone: string | null } | null;
}

/** What is shown of the log. */
interface Shown {
  readonly types: readonly EventTypeName[];
  /** Newest first. */
  readonly entries: readonly Entry[];
  /** The position in the log after which it goes on; undefined before the log has been read. */
  readonly cursor: string | undefined;
  /** Whether there were events before what is shown, which the API has from the oldest on only. */
  readonly hasEarlier: boolean;
  /** Whether there are further events, which are read page by page rather than followed. */
  readonly isBehind: boolean;
  /** Grows whenever it begins anew: who follows then does so, too. */
  readonly round: number;
}

/** Of the newest entries so many are kept: the log itself is at the service. */
const mostKept = 300;

const nothing: Shown = { types: [], entries: [], cursor: undefined, hasEarlier: false, isBehind: false, round: 0 };

/** What each session has been shown, so that the view goes on where it was. */
const shownTo = new WeakMap<Session, Shown>();

export function Events({ session, live }: ViewProps) {
  const { client } = session;
  const [shown, setShown] = useState(shownTo.get(session) ?? nothing);
  shownTo.set(session, shown);
  const [isPaused, setIsPaused] = useState(false);
  const [following, setFollowing] = useState<unknown>();
  const reading = useAction();
  const { types, cursor, isBehind } = shown;

  async function read(
    after: string | null,
    names: readonly EventTypeName[],
    signal: AbortSignal,
  ): Promise<{ page: Page<Entry>; end: string }> {
    const variables = { after, types: names.length === 0 ? null : names };
    const answer = await client.graphql<{
      eventCursor: string;
      events: Page<Omit<Entry, 'type'> & { type: EventTypeName }>;
    }>(log, variables, { signal });
    const nodes = answer.events.nodes.map((node) => ({ ...node, type: eventTypeOf(node.type) }));
    return { page: { ...answer.events, nodes }, end: answer.eventCursor };
  }
  /** Begins with the whole log if it is short, else now. */
  const begin = (names: readonly EventTypeName[]): void =>
    reading.run(async (signal) => {
      const { page, end } = await read(null, names, signal);
      const isShort = !page.pageInfo.hasNextPage;
      const entries = isShort ? page.nodes.toReversed() : [];
      const next = isShort ? (page.pageInfo.endCursor ?? end) : end;
      setShown(({ round }) => ({
        types: names,
        entries,
        cursor: next,
        hasEarlier: !isShort,
        isBehind: false,
        round: round + 1,
      }));
    });
  const readOn = (after: string | null): void =>
    reading.run(async (signal) => {
      const { page, end } = await read(after, types, signal);
      const { endCursor, hasNextPage } = page.pageInfo;
      setShown((now) => ({
        ...now,
        entries: [...page.nodes.toReversed(), ...(after === null ? [] : now.entries)].slice(0, mostKept),
        cursor: endCursor ?? end,
        hasEarlier: false,
        isBehind: hasNextPage,
        round: now.round + 1,
      }));
    });

  useEffect(() => {
    if (cursor === undefined) begin(types);
  }, [cursor === undefined]);
  useEffect(() => {
    if (live.connection === 'live' && reading.error !== undefined) reading.again();
  }, [live.connection]);
  const isAway = live.connection === 'connecting'; // a client that tries by itself may wait for half a minute
  const isFollowing = cursor !== undefined && !isBehind && !isPaused && following === undefined && !isAway;
  useEffect(() => {
    if (!isFollowing) return undefined;
    const { round } = shown;
    const over = new AbortController();
    const follow = async (): Promise<void> => {
      const { signal } = over;
      const of = types.length === 0 ? {} : { types: types.map(eventTypeOf) };
      try {
        for await (const event of client.follow<Entry>({
          over: 'socket',
          after: cursor,
          select: logFields,
          signal,
          ...of,
        })) {
          const follows = (now: Shown): Shown =>
            // It may have begun anew, and this has not ended yet.
            now.round === round
              ? { ...now, entries: [event, ...now.entries].slice(0, mostKept), cursor: event.cursor }
              : now;
          setShown(follows);
        }
      } catch (error) {
        if (signal.aborted) return;
        // The log no longer reaches back to where it was left.
        if (error instanceof ServiceError && error.code === 'CURSOR_EXPIRED') setShown({ ...nothing, types });
        else setFollowing(error);
      }
    };
    void follow();
    return () => over.abort();
    // Not `cursor`, which moves with each event.
  }, [isFollowing, shown.round]);

  return (
    <div class="view">
      <Heading>Events</Heading>
      <div class="row">
        {isBehind && cursor !== undefined ? (
          <>
            <Button kind="main" onClick={() => readOn(cursor)} disabled={reading.isBusy}>
              Read the next 100
            </Button>
            <Button onClick={() => begin(types)} disabled={reading.isBusy}>
              Go on from now
            </Button>
            <span class="hint">These are older events. At the end of the log it goes on live.</span>
          </>
        ) : (
          <>
            <Button onClick={() => setIsPaused(!isPaused)}>{isPaused ? 'Go on' : 'Pause'}</Button>
            <span class="hint" role="status">
              {isPaused ? 'Paused. Nothing is missed: it goes on where it has stopped.' : isFollowing && 'Live'}
            </span>
          </>
        )}
      </div>
      <details>
        <summary>Types: {types.length === 0 ? 'all' : types.map(eventTypeOf).join(', ')}</summary>
        <form
          class="fields"
          onChange={(event) => {
            const given = new FormData(event.currentTarget).getAll('types');
            begin(eventTypes.filter((type) => given.includes(type)));
          }}
        >
          <Choices
            legend="Only these types, or all if none is checked"
            name="types"
            values={eventTypes}
            checked={types}
            nameOf={eventTypeOf}
          />
        </form>
      </details>
      {reading.error !== undefined && <Failure error={reading.error} retry={reading.again} />}
      {following !== undefined && <Failure error={following} retry={() => setFollowing(undefined)} />}
      {cursor !== undefined && shown.entries.length === 0 && (
        <Empty>Nothing has happened yet. What happens from now on appears here by itself.</Empty>
      )}
      {shown.entries.length > 0 && (
        <Table caption="Events, newest first" head={['Type', 'What happened', 'Time', 'Sequence']}>
          {shown.entries.map((entry) => (
            <tr key={entry.id}>
              <td>
                <Badge kind={kindOf(entry)}>{entry.type}</Badge>
              </td>
              <td>
                <What entry={entry} />
              </td>
              <td>
                <Time at={entry.timestamp} isExact />
              </td>
              <td class="number">{entry.sequence}</td>
            </tr>
          ))}
        </Table>
      )}
      {shown.entries.length === mostKept && <p class="hint">Only the newest {mostKept} are kept here.</p>}
      {shown.hasEarlier && (
        <div class="row">
          <p class="hint">
            The log is read from its oldest event on, so what happened before this view was opened is not shown.
          </p>
          <Button onClick={() => readOn(null)} disabled={reading.isBusy}>
            Read from the oldest event
          </Button>
        </div>
      )}
    </div>
  );
}

function kindOf({ type, erased }: Entry): string {
  if (erased || type === 'conversation.deleted') return 'bad';
  if (type === 'message.received' || type === 'lead.captured') return 'good';
  return type === 'conversation.started' ? 'warn' : 'quiet';
}

/** What an event is about, in words. */
function What({ entry }: { readonly entry: Entry }) {
  const { erased, conversation, conversationId, message, changes, readPosition, lead, type } = entry;
  if (type === 'conversation.deleted') return <>The conversation {conversationId} was deleted.</>;
  if (erased) return <em>Erased: its conversation was deleted.</em>;
  return (
    <>
      {conversation && (
        <a href={`#/inbox/${conversation.conversationId}`}>
          {conversation.subject ?? conversation.visitor?.name ?? conversation.conversationId}
        </a>
      )}
      {message && (
        <div class="preview">
          {message.author?.name ?? message.sender.toLowerCase()}: {message.preview}
        </div>
      )}
      {changes?.map((change) => (
        <div key={`${change.field} ${change.key}`}>
          {change.key === null ? change.field : `${change.field}.${change.key}`}: <bdi>{inWords(change.from)}</bdi> →{' '}
          <bdi>{inWords(change.to)}</bdi>
        </div>
      ))}
      {readPosition && conversationId !== undefined && (
        <>
          {readPosition.reader} has read <a href={`#/inbox/${conversationId}`}>{conversationId}</a> up to message{' '}
          {readPosition.sequence}.
        </>
      )}
      {lead && (
        <div>
          {[lead.name, lead.email, lead.phone].filter(Boolean).map((each, at) => (
            <>
              {at > 0 && ', '}
              <bdi>{each}</bdi>
            </>
          ))}
        </div>
      )}
    </>
  );
}

/** A value of a changed field, short. */
function inWords(value: unknown): string {
  if (value === null || value === undefined || value === '') return 'nothing';
  if (Array.isArray(value)) return value.length === 0 ? 'nothing' : value.map(inWords).join(', ');
  if (typeof value !== 'object') return String(value);
  const { name, email, id } = value as { name?: unknown; email?: unknown; id?: unknown };
  return inWords(name ?? email ?? id ?? JSON.stringify(value));
}

import { useEffect, useRef, useState } from 'preact/hooks';
import { leads, leadsById } from '../documents-of-views.ts';
import { Failure, Heading, type Page, PagedTable, Time, usePages, type ViewProps } from '../ui.tsx';

interface Lead {
  readonly id: string;
  readonly name: string | null;
  readonly email: string | null;
  readonly phone: string | null;
  readonly company: string | null;
  readonly conversationId: string | null;
  readonly createdAt: string;
}

export function Leads({ session: { client }, live }: ViewProps) {
  const [email, setEmail] = useState('');
  const [said, setSaid] = useState('');
  const [liveError, setLiveError] = useState<unknown>();
  const pages = usePages<Lead>(
    live,
    async (after, signal) => {
      const variables = { email: email === '' ? null : email, after };
      return (await client.graphql<{ leads: Page<Lead> }>(leads, variables, { signal })).leads;
    },
    [email],
  );

  const waiting = useRef<string[]>([]);
  /** Reads what events do not tell of new leads: of all that have come meanwhile at once, because each request counts. */
  async function readNew(signal: AbortSignal): Promise<void> {
    while (waiting.current.length > 0 && !signal.aborted) {
      const ids = waiting.current.slice(0, 100);
      const { nodes } = await client.graphql<{ nodes: readonly (Lead | null)[] }>(leadsById, { ids }, { signal });
      waiting.current.splice(0, ids.length);
      const added = nodes.filter((lead) => lead !== null).toReversed();
      pages.change((page) => {
        const known = new Set(page.nodes.map(({ id }) => id));
        return { ...page, nodes: [...added.filter(({ id }) => !known.has(id)), ...page.nodes] };
      });
      if (added[0]) setSaid(`New lead: ${added[0].name ?? added[0].email ?? added[0].phone}`);
    }
  }
  useEffect(() => {
    const over = new AbortController();
    waiting.current = [];
    const end = live.listen((event) => {
      if (event.type === 'conversation.deleted') {
        pages.change((page) => ({
          ...page,
          nodes: page.nodes.filter(({ conversationId }) => conversationId !== event.conversationId),
        }));
      }
      const isOfOther = email !== '' && event.lead?.email?.toLowerCase() !== email.toLowerCase();
      if (!event.lead || isOfOther) return;
      waiting.current.push(event.lead.id);
      if (waiting.current.length > 1) return; // it is being read, and this one after it
      readNew(over.signal).catch((error: unknown) => {
        waiting.current = [];
        if (!over.signal.aborted) setLiveError(error);
      });
    }, pages.reload);
    return () => {
      end();
      over.abort();
    };
  }, [live, email]);

  return (
    <div class="view">
      <Heading>Leads</Heading>
      <search>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            setEmail(String(new FormData(event.currentTarget).get('email') ?? '').trim());
          }}
          onReset={() => setEmail('')}
        >
          <label>
            Email address, all of it
            <input name="email" type="search" autocomplete="off" maxLength={320} />
          </label>
          <button type="submit">Search</button>
          {email !== '' && <button type="reset">Show all</button>}
        </form>
      </search>
      <p class="unseen" role="status">
        {said}
      </p>
      {liveError !== undefined && (
        <Failure
          error={liveError}
          retry={() => {
            setLiveError(undefined);
            pages.reload();
          }}
        />
      )}
      <PagedTable
        pages={pages}
        empty={
          email === ''
            ? 'There are no leads yet. One appears here when a program or the chat widget captures a visitor’s email address or phone number.'
            : `No lead has the email address ${email}.`
        }
        caption="Leads, newest first"
        head={['Name', 'Email', 'Phone', 'Company', 'Captured', 'Conversation']}
      >
        {(lead) => (
          <tr key={lead.id}>
            <th scope="row">{lead.name ?? '–'}</th>
            <td class="whole">{lead.email === null ? '–' : <a href={mailTo(lead.email)}>{lead.email}</a>}</td>
            <td class="whole">{lead.phone === null ? '–' : <a href={`tel:${lead.phone}`}>{lead.phone}</a>}</td>
            <td>{lead.company ?? '–'}</td>
            <td>
              <Time at={lead.createdAt} />
            </td>
            <td>
              {lead.conversationId === null ? (
                '–'
              ) : (
                <a
                  href={`#/inbox/${lead.conversationId}`}
                  aria-label={`Open the conversation of ${lead.name ?? lead.email ?? lead.phone}`}
                >
                  Open
                </a>
              )}
            </td>
          </tr>
        )}
      </PagedTable>
    </div>
  );
}

/** A visitor has written the address: what a link would take for another recipient or a text stays a part of it. */
function mailTo(address: string): string {
  return `mailto:${encodeURIComponent(address).replaceAll('%40', '@')}`;
}

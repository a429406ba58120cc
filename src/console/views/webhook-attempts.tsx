import { attempts, delivery as deliveryDocument, redeliver } from '../documents-of-views.ts';
import { eventTypeOf } from '../names.ts';
import {
  Badge,
  Button,
  Failure,
  Heading,
  type Page,
  PagedTable,
  Time,
  useAction,
  useLoaded,
  usePages,
  type ViewProps,
} from '../ui.tsx';
import { afterAttempt, type Delivery } from './webhook.tsx';

interface Attempt {
  readonly id: string;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly trigger: 'MANUAL' | 'SCHEDULE';
  readonly responseStatus: number | null;
  readonly responseBody: string | null;
  readonly error: string | null;
}

/** One delivery, and each attempt at it. */
export function AttemptsPage(props: ViewProps & { readonly id: string; readonly webhookId: string }) {
  const { id, webhookId, live } = props;
  const { client } = props.session;
  const action = useAction();
  const loaded = useLoaded(
    live,
    async (signal) => (await client.graphql<{ delivery: Delivery }>(deliveryDocument, { id }, { signal })).delivery,
    [id],
  );
  const pages = usePages<Attempt>(
    live,
    async (after, signal) => {
      const answer = await client.graphql<{ delivery: { attempts: Page<Attempt> } }>(
        attempts,
        { id, after },
        { signal },
      );
      return answer.delivery.attempts;
    },
    [id],
  );
  const delivery = loaded.data;
  function reload(): void {
    loaded.reload();
    pages.reload();
  }
  async function resend(): Promise<void> {
    const { redeliver: repeated } = await client.graphql<{ redeliver: { delivery: Delivery } }>(redeliver, {
      input: { id, webhookId },
    });
    loaded.change(() => repeated.delivery);
    afterAttempt(reload);
  }

  return (
    <div class="view">
      <p class="path">
        <a href="#/webhooks">Webhooks</a> / <a href={`#/webhooks/${webhookId}`}>Webhook</a>
      </p>
      <Heading takesFocus>{delivery ? `Delivery of ${eventTypeOf(delivery.eventType)}` : 'Delivery'}</Heading>
      {loaded.error !== undefined && <Failure error={loaded.error} retry={reload} />}
      {delivery && (
        <>
          <dl class="facts">
            <dt>Status</dt>
            <dd>
              <span role="status">
                <Badge kind={delivery.status}>{delivery.status.toLowerCase()}</Badge>
              </span>
            </dd>
            <dt>Event</dt>
            <dd>
              <span class="code">{delivery.eventId}</span>
              {delivery.test && ' (a sample, sent as a test)'}
            </dd>
            <dt>Created</dt>
            <dd>
              <Time at={delivery.createdAt} isExact />
            </dd>
            {delivery.nextAttemptAt !== null && (
              <>
                <dt>Next attempt</dt>
                <dd>
                  <Time at={delivery.nextAttemptAt} isExact />
                </dd>
              </>
            )}
          </dl>
          <div class="row">
            <Button kind="main" onClick={() => action.run(resend)} disabled={action.isBusy}>
              Resend
            </Button>
            <Button onClick={reload} disabled={pages.isLoading}>
              Refresh
            </Button>
          </div>
          {action.error !== undefined && <Failure error={action.error} />}
        </>
      )}
      <h2>Attempts</h2>
      <PagedTable
        pages={pages}
        empty="None has ended yet. Refresh to see it once it has."
        caption="Attempts, oldest first"
        head={['Started', 'Result', 'Duration', 'Caused by', 'Response']}
      >
        {(attempt) => (
          <tr key={attempt.id}>
            <th scope="row">
              <Time at={attempt.startedAt} isExact />
            </th>
            <td>
              <Badge kind={isSuccess(attempt) ? 'good' : 'bad'}>{attempt.responseStatus ?? 'no response'}</Badge>
              {attempt.error !== null && <div>{attempt.error}</div>}
            </td>
            <td class="number">{attempt.durationMs} ms</td>
            <td>{attempt.trigger === 'MANUAL' ? 'a request' : 'the schedule'}</td>
            <td>{attempt.responseBody ? <pre>{attempt.responseBody}</pre> : '–'}</td>
          </tr>
        )}
      </PagedTable>
    </div>
  );
}

function isSuccess({ responseStatus }: Attempt): boolean {
  return responseStatus !== null && responseStatus >= 200 && responseStatus < 300;
}

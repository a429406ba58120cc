import { useState } from 'preact/hooks';
import type { Client } from '../../client/index.ts';
import {
  deleteWebhook,
  deliveries,
  recoverWebhook,
  rotateWebhookSecret,
  testWebhook,
  updateWebhook,
  webhook as webhookDocument,
} from '../documents-of-views.ts';
import { type EventTypeName, eventTypeOf, eventTypes } from '../names.ts';
import {
  Badge,
  Button,
  Choices,
  Failure,
  FormDialog,
  Heading,
  type Page,
  PagedTable,
  SecretDialog,
  Time,
  useAction,
  useLoaded,
  usePages,
  type ViewProps,
} from '../ui.tsx';

export interface Webhook {
  readonly id: string;
  readonly url: string;
  readonly description: string | null;
  readonly events: readonly EventTypeName[];
  readonly enabled: boolean;
  readonly disabledReason: 'FAILING' | 'GONE' | 'REQUESTED' | null;
  readonly createdAt: string;
}

export interface Delivery {
  readonly id: string;
  readonly eventId: string;
  readonly eventType: EventTypeName;
  readonly status: 'PENDING' | 'PAUSED' | 'SUCCEEDED' | 'FAILED';
  readonly test: boolean;
  readonly attemptCount: number;
  readonly nextAttemptAt: string | null;
  readonly createdAt: string;
  readonly completedAt: string | null;
}

/** An attempt takes moments, and nothing tells of its end: what is shown is read once more after so long. */
const attemptMs = 1_500;

/** Calls it once, when what has just been asked for has probably been attempted. */
export function afterAttempt(reload: () => void): void {
  setTimeout(reload, attemptMs);
}

type Open = 'edit' | 'rotate' | 'delete' | 'recover';

/** One webhook, and what was sent to it. */
export function WebhookPage({ id, session: { client }, live }: ViewProps & { readonly id: string }) {
  const [open, setOpen] = useState<Open>();
  const [secret, setSecret] = useState<string>();
  const [said, setSaid] = useState('');
  const action = useAction();
  const loaded = useLoaded(
    live,
    async (signal) => (await client.graphql<{ webhook: Webhook }>(webhookDocument, { id }, { signal })).webhook,
    [id],
  );
  const pages = usePages<Delivery>(
    live,
    async (after, signal) => {
      const answer = await client.graphql<{ webhook: { deliveries: Page<Delivery> } }>(
        deliveries,
        { id, after },
        { signal },
      );
      return answer.webhook.deliveries;
    },
    [id],
  );
  const webhook = loaded.data;

  async function change(changes: object): Promise<void> {
    const { updateWebhook: changed } = await client.graphql<{ updateWebhook: { webhook: Webhook } }>(updateWebhook, {
      input: { id, ...changes },
    });
    loaded.change(() => changed.webhook);
  }
  async function rotate(): Promise<void> {
    setSecret(await newSecretOf(client, { id }));
  }
  async function remove(): Promise<void> {
    await client.graphql(deleteWebhook, { input: { id } });
    location.hash = '#/webhooks';
  }
  async function sendTest(): Promise<void> {
    const { testWebhook: sent } = await client.graphql<{ testWebhook: { delivery: Delivery } }>(testWebhook, {
      input: { id },
    });
    pages.change((page) => ({
      ...page,
      nodes: [sent.delivery, ...page.nodes.filter((each) => each.id !== sent.delivery.id)],
    }));
    setSaid('The test is being sent.');
    afterAttempt(pages.reload);
  }
  async function recover(given: FormData, idempotencyKey: string): Promise<void> {
    const since = new Date(String(given.get('since'))).toISOString();
    const { recoverWebhook: recovered } = await client.graphql<{ recoverWebhook: { count: number } }>(
      recoverWebhook,
      { input: { id, since, idempotencyKey } },
      { isRepeatable: true },
    );
    setSaid(recovered.count === 0 ? 'None has failed since then.' : `Being sent again: ${recovered.count}.`);
    afterAttempt(pages.reload);
  }

  return (
    <div class="view">
      <p class="path">
        <a href="#/webhooks">Webhooks</a>
      </p>
      <Heading takesFocus>{webhook?.url ?? 'Webhook'}</Heading>
      {loaded.error !== undefined && <Failure error={loaded.error} retry={loaded.reload} />}
      {webhook && (
        <>
          <dl class="facts">
            <dt>State</dt>
            <dd>
              <State of={webhook} />
            </dd>
            <dt>Events</dt>
            <dd>{webhook.events.map(eventTypeOf).join(', ')}</dd>
            {webhook.description !== null && (
              <>
                <dt>Description</dt>
                <dd>{webhook.description}</dd>
              </>
            )}
            <dt>Created</dt>
            <dd>
              <Time at={webhook.createdAt} isExact />
            </dd>
          </dl>
          <div class="row">
            <Button onClick={() => action.run(sendTest)} disabled={action.isBusy}>
              Send a test
            </Button>
            <Button onClick={() => setOpen('edit')}>Edit</Button>
            <Button onClick={() => action.run(() => change({ enabled: !webhook.enabled }))} disabled={action.isBusy}>
              {webhook.enabled ? 'Disable' : 'Enable'}
            </Button>
            <Button onClick={() => setOpen('rotate')}>New secret</Button>
            <Button kind="danger" onClick={() => setOpen('delete')}>
              Delete
            </Button>
          </div>
          {action.error !== undefined && <Failure error={action.error} />}
          <div class="row between">
            <h2>Deliveries</h2>
            <span class="row">
              <Button onClick={() => setOpen('recover')}>Resend what failed</Button>
              <Button onClick={pages.reload} disabled={pages.isLoading}>
                Refresh
              </Button>
            </span>
          </div>
          <p class="hint" role="status">
            {said}
          </p>
          <PagedTable
            pages={pages}
            empty="Nothing has been sent yet. Send a test, or wait for the next event."
            caption="Deliveries, newest first"
            head={['Created', 'Event', 'Status', 'Attempts', 'Next attempt', 'Completed']}
          >
            {(delivery) => (
              <tr key={delivery.id}>
                <th scope="row">
                  <a href={`#/webhooks/${id}/${delivery.id}`}>
                    <Time at={delivery.createdAt} isExact />
                  </a>
                </th>
                <td>
                  {eventTypeOf(delivery.eventType)}
                  {delivery.test && ' (test)'}
                </td>
                <td>
                  <Badge kind={delivery.status}>{delivery.status.toLowerCase()}</Badge>
                </td>
                <td class="number">{delivery.attemptCount}</td>
                <td>{delivery.nextAttemptAt === null ? '–' : <Time at={delivery.nextAttemptAt} isExact />}</td>
                <td>{delivery.completedAt === null ? '–' : <Time at={delivery.completedAt} isExact />}</td>
              </tr>
            )}
          </PagedTable>
        </>
      )}
      {webhook && open === 'edit' && (
        <FormDialog
          title="Edit the webhook"
          submitLabel="Save"
          submit={(given) => change(fieldsOf(given))}
          onClosed={() => setOpen(undefined)}
        >
          <WebhookFields url={webhook.url} description={webhook.description} events={webhook.events} />
        </FormDialog>
      )}
      {open === 'rotate' && (
        <FormDialog
          title="Give the webhook a new secret?"
          submitLabel="Make a new secret"
          submit={rotate}
          onClosed={() => setOpen(undefined)}
        >
          <p>The present one also signs for 24 more hours, so that your program can take both in the meantime.</p>
        </FormDialog>
      )}
      {open === 'delete' && (
        <FormDialog
          title="Delete the webhook?"
          submitLabel="Delete"
          isDangerous
          submit={remove}
          onClosed={() => setOpen(undefined)}
        >
          <p>
            Nothing more is sent to <span class="code">{webhook?.url}</span>, and the list of what was sent is deleted
            with it.
          </p>
        </FormDialog>
      )}
      {open === 'recover' && (
        <FormDialog
          title="Resend what failed"
          submitLabel="Resend"
          submit={recover}
          onClosed={() => setOpen(undefined)}
        >
          <p>All deliveries that have finally failed since this time are sent again.</p>
          <label>
            Since
            <input name="since" type="datetime-local" required defaultValue={yesterday()} />
          </label>
        </FormDialog>
      )}
      {secret !== undefined && (
        <SecretDialog title="The webhook’s new secret" secret={secret} onClosed={() => setSecret(undefined)}>
          With it your program verifies that a request comes from here.
        </SecretDialog>
      )}
    </div>
  );
}

/** The time of now yesterday, as a field for times takes it. */
function yesterday(): string {
  const now = new Date();
  return new Date(now.getTime() - now.getTimezoneOffset() * 60_000 - 86_400_000).toISOString().slice(0, 16);
}

/** What a webhook is created with, and what can be changed of it. */
export function WebhookFields(props: {
  readonly url?: string;
  readonly description?: string | null;
  readonly events: readonly EventTypeName[];
}) {
  return (
    <>
      <label>
        URL, which begins with https://
        <input name="url" type="url" required maxLength={2048} defaultValue={props.url ?? ''} />
      </label>
      <label>
        Description
        <input name="description" maxLength={200} defaultValue={props.description ?? ''} />
      </label>
      <Choices legend="Events to send" name="events" values={eventTypes} checked={props.events} nameOf={eventTypeOf} />
    </>
  );
}

/** What has been given in these fields, as the API takes it. */
export function fieldsOf(given: FormData): object {
  const description = String(given.get('description') ?? '').trim();
  return {
    url: String(given.get('url') ?? '').trim(),
    description: description === '' ? null : description,
    events: given.getAll('events'),
  };
}

/** Gives a webhook a new secret. */
export async function newSecretOf(client: Client, { id }: Pick<Webhook, 'id'>): Promise<string> {
  const { rotateWebhookSecret: rotated } = await client.graphql<{
    rotateWebhookSecret: { webhook: { readonly secret: string } };
  }>(rotateWebhookSecret, { input: { id } });
  return rotated.webhook.secret;
}

const reasons = {
  FAILING: 'disabled: nothing has succeeded for five days',
  GONE: 'disabled: the receiver answered 410 Gone',
  REQUESTED: 'disabled by request',
};

/** Whether events are sent, and if not why. */
export function State({ of }: { readonly of: Webhook }) {
  if (of.enabled) return <Badge kind="good">enabled</Badge>;
  return <Badge kind="bad">{of.disabledReason === null ? 'disabled' : reasons[of.disabledReason]}</Badge>;
}

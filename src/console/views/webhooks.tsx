import { useState } from 'preact/hooks';
import { createWebhook, webhooks } from '../documents-of-views.ts';
import { eventTypeOf } from '../names.ts';
import { Button, FormDialog, Heading, type Page, PagedTable, SecretDialog, usePages, type ViewProps } from '../ui.tsx';
import { fieldsOf, newSecretOf, State, type Webhook, WebhookFields, WebhookPage } from './webhook.tsx';
import { AttemptsPage } from './webhook-attempts.tsx';

/** The list of webhooks, one of them, or one of its deliveries. */
export function Webhooks(props: ViewProps) {
  const [webhookId, deliveryId] = props.path;
  if (webhookId === undefined) return <List {...props} />;
  if (deliveryId === undefined) return <WebhookPage key={webhookId} id={webhookId} {...props} />;
  return <AttemptsPage key={deliveryId} id={deliveryId} webhookId={webhookId} {...props} />;
}

/** What is sent unless something else is chosen, as the API has it. */
const byDefault = ['CONVERSATION_STARTED', 'MESSAGE_RECEIVED', 'CONVERSATION_CLOSED', 'LEAD_CAPTURED'] as const;

function List({ session: { client }, live }: ViewProps) {
  const [isCreating, setIsCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const pages = usePages<Webhook>(
    live,
    async (after, signal) =>
      (await client.graphql<{ webhooks: Page<Webhook> }>(webhooks, { after }, { signal })).webhooks,
    [],
  );
  async function create(given: FormData, idempotencyKey: string): Promise<void> {
    const input = { ...fieldsOf(given), idempotencyKey };
    const { createWebhook: made } = await client.graphql<{
      createWebhook: { webhook: Webhook & { readonly secret: string | null } };
    }>(createWebhook, { input }, { isRepeatable: true });
    const { secret: toldOnce, ...webhook } = made.webhook;
    pages.change((page) => ({ ...page, nodes: [webhook, ...page.nodes.filter(({ id }) => id !== webhook.id)] }));
    setSecret(toldOnce ?? (await newSecretOf(client, webhook))); // it may have been told in an answer that was lost
  }
  return (
    <div class="view">
      <div class="row between">
        <Heading>Webhooks</Heading>
        {pages.data && (
          <Button kind="main" onClick={() => setIsCreating(true)}>
            New webhook
          </Button>
        )}
      </div>
      <PagedTable
        pages={pages}
        empty="There are no webhooks yet. Add one to have events sent to a program of yours as they happen."
        caption="Webhooks, newest first"
        head={['URL', 'State', 'Events', 'Description']}
      >
        {(webhook) => (
          <tr key={webhook.id}>
            <th scope="row">
              <a href={`#/webhooks/${webhook.id}`}>{webhook.url}</a>
            </th>
            <td>
              <State of={webhook} />
            </td>
            <td>{webhook.events.map(eventTypeOf).join(', ')}</td>
            <td>{webhook.description ?? '–'}</td>
          </tr>
        )}
      </PagedTable>
      {isCreating && (
        <FormDialog title="New webhook" submitLabel="Create" submit={create} onClosed={() => setIsCreating(false)}>
          <WebhookFields events={byDefault} />
        </FormDialog>
      )}
      {secret !== undefined && (
        <SecretDialog title="The webhook’s secret" secret={secret} onClosed={() => setSecret(undefined)}>
          With it your program verifies that a request comes from here.
        </SecretDialog>
      )}
    </div>
  );
}

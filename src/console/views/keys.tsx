import { useState } from 'preact/hooks';
import { Client } from '../../client/index.ts';
import { account as accountDocument, apiKeys, createApiKey, revokeApiKey } from '../documents-of-views.ts';
import { type ScopeName, scopeOf, scopes } from '../names.ts';
import { service } from '../session.ts';
import {
  Badge,
  Button,
  Choices,
  Failure,
  FormDialog,
  Heading,
  KeyField,
  type Page,
  PagedTable,
  SecretDialog,
  Time,
  useLoaded,
  usePages,
  type ViewProps,
} from '../ui.tsx';

interface Account {
  readonly name: string;
  readonly plan: 'TRIAL' | 'PRO' | 'BUSINESS';
  readonly rateLimit: { readonly limit: number; readonly remaining: number; readonly resetAt: string };
}

interface ApiKey {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly ScopeName[];
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
}

export function Keys(props: ViewProps) {
  return (
    <div class="view">
      <Heading>Keys and plan</Heading>
      <Plan {...props} />
      <KeyList {...props} />
    </div>
  );
}

const number = new Intl.NumberFormat();

/** The plan, and how much of its hourly requests is used. */
function Plan({ session: { client }, live }: ViewProps) {
  const { data, error, isLoading, reload } = useLoaded(
    live,
    async (signal) => (await client.graphql<{ account: Account }>(accountDocument, {}, { signal })).account,
    [],
  );
  if (error !== undefined) return <Failure error={error} retry={reload} />;
  if (data === undefined) return <p class="hint">Loading …</p>;
  const { limit, remaining, resetAt } = data.rateLimit;
  return (
    <section class="card" aria-label="Plan">
      <div class="row between">
        <h2>
          {data.name}, plan {data.plan.toLowerCase()}
        </h2>
        <Button onClick={reload} disabled={isLoading}>
          Refresh
        </Button>
      </div>
      <meter
        aria-label="Requests used of those in any 60 minutes"
        min={0}
        max={limit}
        high={limit * 0.8}
        optimum={0}
        value={limit - remaining}
      />
      <p>
        {number.format(limit - remaining)} of {number.format(limit)} requests of the last 60 minutes are used,{' '}
        {number.format(remaining)} are left.
        {remaining < limit && (
          <>
            {' '}
            There will be more at <Time at={resetAt} />.
          </>
        )}
      </p>
    </section>
  );
}

function KeyList({ session: { client }, live }: ViewProps) {
  const [isCreating, setIsCreating] = useState(false);
  const [secret, setSecret] = useState<string>();
  const [revoking, setRevoking] = useState<ApiKey>();
  const pages = usePages<ApiKey>(
    live,
    async (after, signal) => (await client.graphql<{ apiKeys: Page<ApiKey> }>(apiKeys, { after }, { signal })).apiKeys,
    [],
  );
  async function create(given: FormData): Promise<void> {
    const text = (name: string): string => String(given.get(name) ?? '').trim();
    const input = {
      name: text('name'),
      scopes: given.getAll('scopes'),
      expiresAt: text('expires') === '' ? null : new Date(text('expires')).toISOString(),
    };
    // With the key itself: what the session calls with ends within minutes, and so would what it creates.
    const withKey = new Client({ url: service, credential: text('key') });
    const { createApiKey: made } = await withKey.graphql<{
      createApiKey: { apiKey: ApiKey & { readonly secret: string } };
    }>(createApiKey, { input });
    const { secret: toldOnce, ...key } = made.apiKey;
    pages.change((page) => ({ ...page, nodes: [key, ...page.nodes.filter(({ id }) => id !== key.id)] }));
    setSecret(toldOnce);
  }
  async function revoke({ id }: ApiKey): Promise<void> {
    await client.graphql(revokeApiKey, { input: { id } });
    const revokedAt = new Date().toISOString();
    pages.change((page) => ({
      ...page,
      nodes: page.nodes.map((key) => (key.id === id && key.revokedAt === null ? { ...key, revokedAt } : key)),
    }));
  }
  return (
    <>
      <div class="row between">
        <h2>API keys</h2>
        {pages.data && (
          <Button kind="main" onClick={() => setIsCreating(true)}>
            New key
          </Button>
        )}
      </div>
      <PagedTable
        pages={pages}
        empty="There are no keys."
        caption="API keys, newest first"
        head={['Name', 'Begins with', 'Scopes', 'Created', 'Last used', 'Ends', 'Action']}
      >
        {(key) => (
          <tr key={key.id}>
            <th scope="row">{key.name}</th>
            <td class="code">{key.prefix}</td>
            <td>{key.scopes.length === scopes.length ? 'all' : key.scopes.map(scopeOf).join(', ')}</td>
            <td>
              <Time at={key.createdAt} />
            </td>
            <td>{key.lastUsedAt === null ? 'never' : <Time at={key.lastUsedAt} />}</td>
            <td>
              <End of={key} />
            </td>
            <td>
              {key.revokedAt === null && (
                <Button kind="danger" label={`Revoke ${key.name}`} onClick={() => setRevoking(key)}>
                  Revoke
                </Button>
              )}
            </td>
          </tr>
        )}
      </PagedTable>
      {isCreating && (
        <FormDialog title="New API key" submitLabel="Create" submit={create} onClosed={() => setIsCreating(false)}>
          <label>
            Name, to recognise it by
            <input name="name" required maxLength={200} autocomplete="off" />
          </label>
          <Choices legend="Scopes" name="scopes" values={scopes} checked={[]} nameOf={scopeOf} />
          <label>
            Ends at, or never if this is empty
            <input name="expires" type="datetime-local" />
          </label>
          <KeyField label="An API key of yours, with keys:manage and these scopes" />
          <p class="hint">
            It is sent once, and not kept. A session cannot create keys that last longer than itself, so that nobody who
            finds this page open takes a key with them.
          </p>
        </FormDialog>
      )}
      {secret !== undefined && (
        <SecretDialog title="The new key" secret={secret} onClosed={() => setSecret(undefined)}>
          Your programs call with it.
        </SecretDialog>
      )}
      {revoking && (
        <FormDialog
          title={`Revoke ${revoking.name}?`}
          submitLabel="Revoke"
          isDangerous
          submit={() => revoke(revoking)}
          onClosed={() => setRevoking(undefined)}
        >
          <p>
            Programs that call with the key that begins with <span class="code">{revoking.prefix}</span> are refused at
            once and for good. If you have signed in with it, you are signed out.
          </p>
        </FormDialog>
      )}
    </>
  );
}

/** When a key ends or has ended. */
function End({ of: { revokedAt, expiresAt } }: { readonly of: ApiKey }) {
  if (revokedAt !== null)
    return (
      <Badge kind="bad">
        revoked <Time at={revokedAt} />
      </Badge>
    );
  if (expiresAt === null) return <>never</>;
  if (Date.parse(expiresAt) > Date.now()) return <Time at={expiresAt} />;
  return (
    <Badge kind="bad">
      expired <Time at={expiresAt} />
    </Badge>
  );
}

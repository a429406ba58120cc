import { expect } from 'vitest';
import { commandLine, serve } from '../cli/program.ts';
import { clientOf } from '../support/client.ts';
import { temporaryFolder } from '../support/files.ts';
import { type Answer, type Answers, startSite } from '../support/site.ts';
import { eventually, until } from '../support/wait.ts';
import type { Following, Over } from './tour.ts';

const scopes = ['conversations:read', 'conversations:write', 'events:read', 'leads:write'];

/** The endpoint of a site that makes tokens with a key of the service. */
export async function tokenFrom(url: string, secret: string): Promise<Answer> {
  const { status, body } = await clientOf(url, secret).rest('POST', '/tokens', { body: { scopes } });
  if (status !== 201) throw new Error(`There is no token: ${status}`);
  return { type: 'application/json', body: JSON.stringify(body) };
}

export interface Follower {
  readonly over: Over;
  /** How often the server is killed, three times by default. */
  readonly kills?: number;
  /** What the site has, beside an endpoint for tokens. */
  readonly pages?: Answers;
  /** Begins to follow, wherever that is. */
  begin(following: Following, site: string, heard: (id: string) => void): Promise<unknown>;
}

/**
 * Kills a server while somebody follows its events, and then revokes what the follower calls with. It must hear of each
 * event once, in order.
 */
export async function followThroughKills({ over, kills = 3, pages = {}, begin }: Follower): Promise<void> {
  const databasePath = `${temporaryFolder()}/test.db`;
  const { apiKey } = await commandLine(databasePath).jsonHere<{ apiKey: { secret: string } }>(
    ...['account', 'create', '--name', 'A', '--plan', 'business'],
  );
  let url = '';
  let tokens = 0;
  let key = { id: '', secret: '' };
  const token = async (): Promise<Answer> => {
    tokens++;
    return await tokenFrom(url, key.secret);
  };
  const { origin } = await startSite({ ...pages, '/agent-token': token });
  const environment = { CORS_ORIGINS: origin };
  let running = await serve(databasePath, environment);
  url = running.url;
  const program = clientOf(url, apiKey.secret);
  const newKey = async () => (await program.rest('POST', '/api-keys', { body: { name: 'pages', scopes } })).body;
  key = await newKey();
  const write = async (count: number): Promise<void> => {
    for (let done = 0; done < count; done++) {
      expect((await program.rest('POST', '/conversations', { body: {} })).status).toBe(201);
    }
  };

  const got: string[] = [];
  const after = (await program.graphql('{ eventCursor }')).data.eventCursor;
  await begin({ url, tokenUrl: `${origin}/agent-token`, over, after }, origin, (id) => got.push(id));
  for (let round = 0; round < kills; round++) {
    await write(5);
    await until(() => got.length >= 5 * round + 1);
    running.signal('SIGKILL');
    await running.ended;
    running = await serve(databasePath, { ...environment, PORT: new URL(url).port });
  }
  await write(1);
  await until(() => got.length >= 5 * kills + 1);

  const [old, before] = [key, tokens];
  key = await newKey();
  expect((await program.rest('DELETE', `/api-keys/${old.id}`)).status).toBe(204);
  await write(4);
  await until(() => got.length >= 5 * kills + 5);
  expect(tokens).toBe(before + 1);
  const log = await eventually(
    async () => (await program.rest('GET', '/events?limit=100')).body.data.map(({ id }: { id: string }) => id),
    (ids) => ids.length === 5 * kills + 5,
  );
  expect(got).toEqual(log);
}

import { afterAll, beforeAll, expect, test } from 'vitest';
import { createAccount } from '../../src/domain/accounts.ts';
import { revokeApiKey } from '../../src/domain/api-keys.ts';
import { operatorOf } from '../../src/domain/caller.ts';
import { startTestServer, type TestServer } from '../support/server.ts';
import { RawSocket } from '../support/subscribe.ts';

// Sockets end with the key they were opened with, however many others are open.

let server: TestServer;

beforeAll(async () => {
  server = await startTestServer();
});
afterAll(() => server.close());

test('while the keys of thousands of sockets are looked up, others are served', async () => {
  const { ports, sessions } = server.app;
  const made = await Promise.all(
    Array.from({ length: 3_000 }, (_, index) => createAccount(ports, { name: `account ${index}`, plan: 'trial' })),
  );
  const ended = made.map(({ account, apiKey }) => {
    const caller = { ...operatorOf(account), keyId: apiKey.id };
    return new Promise<void>((resolve) => {
      sessions.open(caller, { endSession: () => resolve() });
    });
  });
  const revoke = async (place: number): Promise<void> => {
    const { account, apiKey } = made[place] ?? expect.fail();
    await revokeApiKey.execute(ports, operatorOf(account), { id: apiKey.id });
  };
  // One look may end some of these three and the next the others, but two of them end in the same look.
  const places = [0, 1_500, 2_999];
  const all = places.map((place) => ended[place]);
  let turns = 0;
  let isOver = false;
  const turn = (): void => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  void Promise.race(all).then(turn);
  await Promise.all([...places.map(revoke), ...all]);
  isOver = true;
  expect(turns).toBeGreaterThan(1);
});

test.each(['a key is revoked', 'tokens expire'])(
  'while all sockets of an account end because %s, others are served',
  async (why) => {
    const { ports, sessions } = server.app;
    const { account, apiKey } = await createAccount(ports, { name: why, plan: 'trial' });
    const expiresAtMs = why === 'tokens expire' ? server.clock.now() + 1_000 : undefined;
    const caller = { ...operatorOf(account), keyId: apiKey.id, expiresAtMs };
    const { promise: allEnded, resolve: end } = Promise.withResolvers<void>();
    let open = 100;
    let turns = 0;
    const turn = (): void => {
      turns++;
      if (open > 0) setImmediate(turn);
    };
    // Ending one takes a moment, and what follows from it another.
    const takeTime = (): void => {
      for (const sinceMs = performance.now(); performance.now() - sinceMs < 0.5; );
    };
    const endSession = (): void => {
      if (open-- === 100) setImmediate(turn);
      takeTime();
      queueMicrotask(takeTime);
      if (open === 0) end();
    };
    for (let index = 0; index < 100; index++) sessions.open(caller, { endSession });
    if (why === 'a key is revoked') await revokeApiKey.execute(ports, operatorOf(account), { id: apiKey.id });
    else server.clock.advance(1_000);
    await allEnded;
    expect(turns).toBeGreaterThan(5);
  },
);

test('a key that cannot be looked up keeps no other from ending', async () => {
  const [broken, ending] = [await server.account(), await server.account()];
  await new RawSocket(server.url).init(broken.secret);
  const socket = await new RawSocket(server.url).init(ending.secret);
  const { body } = await ending.rest('GET', '/api-keys');
  await server.query("UPDATE api_keys SET scopes = 'none' WHERE account_id = ?", broken.account.id);
  expect((await ending.rest('DELETE', `/api-keys/${body.data[0].id}`)).status).toBe(204);
  expect((await socket.closed).code).toBe(4403);
});

import { WebSocket } from 'ws';
import { send, sleep, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { Outcomes } from './outcomes.ts';

/** Subscribes on a socket, in ways that differ, so that no answer serves two. */
export async function subscribe(
  { url, secret }: Target,
  count: number,
  field: string,
  { after, by, outcomes }: { after?: string | undefined; by: 'variable' | 'alias'; outcomes: Outcomes },
): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws', {
    maxPayload: 2 ** 31 - 1,
  });
  const closed = new Promise<void>((resolve) => {
    socket.on('close', (code) => {
      if (code !== 1005) outcomes.add(`closed with ${code}`);
      resolve();
    });
  });
  socket.on('error', () => {});
  const arguments_ = after === undefined ? '' : `(after: ${JSON.stringify(after)})`;
  await new Promise<void>((resolve) => {
    socket.on('open', () =>
      socket.send(JSON.stringify({ type: 'connection_init', payload: { authorization: `Bearer ${secret}` } })),
    );
    socket.on('message', (data: Buffer) => {
      // What is large is not parsed.
      const start = data.toString('utf8', 0, 300);
      const [, type = ''] = /"type":"(\w+)"/.exec(start) ?? [];
      if (type === 'connection_ack') resolve();
      const code =
        /"code":"([A-Z_]+)"/.exec(start)?.[1] ??
        /"code":"([A-Z_]+)"/.exec(data.toString('utf8', Math.max(0, data.length - 600)))?.[1];
      if (type === 'next') outcomes.add(code === undefined ? 'event' : `event ${code}`);
      if (type === 'error') outcomes.add(`error ${code}`);
    });
    void closed.then(resolve);
  });
  for (let index = 0; index < count; index++) {
    const name = by === 'alias' ? `n${index}: ` : '';
    const query = `subscription { ${name}${field.replace('(AFTER)', arguments_)} }`;
    const payload = { query, ...(by === 'variable' && { variables: { n: index } }) };
    if (socket.readyState === WebSocket.OPEN)
      socket.send(JSON.stringify({ id: `s${index}`, type: 'subscribe', payload }));
  }
  return socket;
}

interface Subscriptions {
  readonly sockets: number;
  readonly each: number;
  readonly field: string;
  readonly by: 'variable' | 'alias';
  readonly messages: number;
}

/** Subscribes, then has a visitor write, and takes what comes of it for a while. */
export async function followAndWrite(
  target: Target,
  { sockets, each, field, by, messages }: Subscriptions,
): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const all: WebSocket[] = [];
  for (let index = 0; index < sockets; index++) all.push(await subscribe(target, each, field, { by, outcomes }));
  await settled(outcomes, target.isLong ? 300 : 100, 5_000);
  const path = `/v1/conversations/${target.fixture['conversation']}/messages`;
  const body = { content: 'Hello?', sender: 'visitor' };
  const written = await send(target, { connections: 1, requests: messages }, () =>
    requestBytes('POST', path, { secret: target.secret, body }),
  );
  outcomes.addAll(written);
  await settled(outcomes, target.isLong ? 5_000 : 250, target.isLong ? 40_000 : 10_000);
  await leave(all);
  return outcomes;
}

/** Closes sockets, without waiting for long until the server has. */
export async function leave(sockets: readonly WebSocket[]): Promise<void> {
  for (const socket of sockets) socket.close();
  await sleep(100);
  for (const socket of sockets) socket.terminate();
}

/** Resolves when there was no new outcome for a while. */
export async function settled(outcomes: Outcomes, quietMs: number, patienceMs: number): Promise<void> {
  const endMs = performance.now() + patienceMs;
  let last = '';
  for (let changedMs = performance.now(); performance.now() < Math.min(changedMs + quietMs, endMs); await sleep(20)) {
    const now = JSON.stringify(outcomes.counts);
    if (now !== last) changedMs = performance.now();
    last = now;
  }
}

export async function replay(
  target: Target,
  { sockets, each, field }: { sockets: number; each: number; field: string },
): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const { after } = target.fixture;
  const all = await Promise.all(times(sockets, () => subscribe(target, each, field, { after, by: 'alias', outcomes })));
  await settled(outcomes, target.isLong ? 5_000 : 250, target.isLong ? 40_000 : 10_000);
  await leave(all);
  return outcomes;
}

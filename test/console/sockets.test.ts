import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { watched } from '../../src/console/sockets.ts';
import { until } from '../support/wait.ts';

test('a socket that ends after it was replaced, as one does that hangs, says nothing of the one in its place', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const closed: number[] = [];
  const Watched = watched({ answered: () => {}, closed: (code) => closed.push(code) });
  const open = async () => {
    const socket = new Watched(url);
    await once(socket, 'open');
    return socket;
  };
  const first = await open();
  const second = await open();
  first.close(4499);
  await once(first, 'close');
  second.close(4000);
  await until(() => closed.length > 0);
  expect(closed).toEqual([4000]);
});

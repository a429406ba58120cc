import { Duplex } from 'node:stream';
import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import type { Holder } from '../../src/access/memory-owner.ts';
import { UnsentResponses } from '../../src/http/unsent-responses.ts';

const mebibyte = 1024 * 1024;

let unsent: UnsentResponses;
beforeEach(() => {
  unsent = new UnsentResponses(pino({ enabled: false }));
});

const account = (id: string): Holder => ({ account: { id } });

/** A connection whose client reads nothing. */
function connection(): Duplex {
  return new Duplex({ read() {}, write() {} });
}

/** Sends responses of a mebibyte on connections of their own. */
function send(caller: Holder | undefined, count: number): Duplex[] {
  return Array.from({ length: count }, () => {
    const each = connection();
    each.write(Buffer.alloc(mebibyte));
    unsent.note(each, caller);
    return each;
  });
}

const open = (connections: readonly Duplex[]): boolean[] => connections.map(({ destroyed }) => !destroyed);

test.each([
  ['an account', account('one')],
  ['all without an account', undefined],
])('%s may have half of what may be unread, though all others read', (_, caller) => {
  const connections = send(caller, 40);
  expect(open(connections), 'the longest slow are cut off').toEqual(connections.map((_, index) => index >= 8));
});

test('what two accounts leave unread takes nothing from a third', () => {
  const some = send(account('modest'), 10);
  const [one, two] = [send(account('one'), 40), send(account('two'), 40)];
  const more = send(account('modest'), 10);
  expect(open([...some, ...more])).not.toContain(false);
  const left = [...one, ...two].filter(({ destroyed }) => !destroyed);
  expect(left.length + some.length + more.length).toBeLessThanOrEqual(64);
  expect(left.length).toBeGreaterThan(40);
});

test('what has been read meanwhile does not count', () => {
  const clients = Array.from({ length: 40 }, () => {
    const taken: (() => void)[] = [];
    const each = new Duplex({ read() {}, write: (_chunk, _encoding, done) => void taken.push(done) });
    each.write(Buffer.alloc(mebibyte));
    unsent.note(each, account('one'));
    for (const take of taken) take();
    return each;
  });
  expect(open(clients)).not.toContain(false);
});

test('what visitors leave unread takes nothing from the agents, and what one of them does, nothing from the others', () => {
  const agents = send(account('one'), 8);
  const other = send({ ...account('one'), conversationId: 'conv_1' }, 8);
  const visitor = { ...account('one'), visitor: { id: 'customer-7', name: null, email: null } };
  const most = send(visitor, 40);
  expect(open([...agents, ...other])).not.toContain(false);
  expect(open(most)).toContain(false);
});

import { Duplex } from 'node:stream';
import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import { UnsentResponses } from '../../src/http/unsent-responses.ts';

const mebibyte = 1024 * 1024;

let unsent: UnsentResponses;
beforeEach(() => {
  unsent = new UnsentResponses(pino({ enabled: false }));
});

/** A connection whose client reads nothing. */
function connection(): Duplex {
  return new Duplex({ read() {}, write() {} });
}

/** Sends responses of a mebibyte on connections of their own. */
function send(accountId: string | undefined, count: number): Duplex[] {
  return Array.from({ length: count }, () => {
    const each = connection();
    each.write(Buffer.alloc(mebibyte));
    unsent.note(each, accountId);
    return each;
  });
}

const open = (connections: readonly Duplex[]): boolean[] => connections.map(({ destroyed }) => !destroyed);

test.each(['an account', undefined])(
  '%s has at most half of what may be unread, though all others read',
  (accountId) => {
    const connections = send(accountId, 40);
    expect(open(connections), 'the longest slow are cut off').toEqual(connections.map((_, index) => index >= 8));
  },
);

test('what two accounts leave unread takes nothing from a third', () => {
  const some = send('modest', 10);
  const [one, two] = [send('one', 40), send('two', 40)];
  const more = send('modest', 10);
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
    unsent.note(each, 'an account');
    for (const take of taken) take();
    return each;
  });
  expect(open(clients)).not.toContain(false);
});

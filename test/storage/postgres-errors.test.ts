import { expect, test } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import { asDomainError, isDisconnection } from '../../src/storage/postgres/errors.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';

test.each(['ECONNREFUSED', 'EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL', 'EHOSTDOWN', 'ENETDOWN', 'ECONNABORTED'])(
  'what cannot connect because of %s is unavailable, and may be tried again',
  (code) => {
    const error = Object.assign(new Error(`connect ${code}`), { code });
    expect(asDomainError(error)).toMatchObject({ code: 'UNAVAILABLE' });
  },
);

test('a connection is lost, too, if it is that of a proxy to the database', () => {
  const error = Object.assign(new Error('server conn crashed?'), { code: '08P01' });
  expect(isDisconnection(error)).toBe(true);
});

test.each(['disable', 'require'])(
  'an address to which there is no way is told at once, and not waited for: sslmode=%s',
  async (mode) => {
    const url = `postgres://a:b@255.255.255.255/c?sslmode=${mode}`;
    const error = await openPostgresStorage(url, { clock: systemClock }).catch((error: unknown) => error);
    expect(error).toMatchObject({ message: expect.stringMatching(/^connect E\w+ 255\.255\.255\.255:5432/) });
    expect(asDomainError(error)).toMatchObject({ code: 'UNAVAILABLE' });
  },
);

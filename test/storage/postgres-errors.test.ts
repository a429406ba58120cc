import { expect, test } from 'vitest';
import { asDomainError } from '../../src/storage/postgres/errors.ts';

test.each(['ECONNREFUSED', 'EMFILE', 'ENFILE', 'ENOBUFS', 'EADDRNOTAVAIL', 'EHOSTDOWN', 'ENETDOWN', 'ECONNABORTED'])(
  'what cannot connect because of %s is unavailable, and may be tried again',
  (code) => {
    const error = Object.assign(new Error(`connect ${code}`), { code });
    expect(asDomainError(error)).toMatchObject({ code: 'UNAVAILABLE' });
  },
);

import { describe, expect, test } from 'vitest';
import { childTraceparent, parseTraceparent, traceIdOf } from '../../src/domain/trace.ts';

const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
const parent = '00f067aa0ba902b7';
const valid = `00-${trace}-${parent}-01`;

describe('a traceparent header', () => {
  test.each([
    ['of version 00', valid, valid],
    ['that is not sampled', `00-${trace}-${parent}-00`, `00-${trace}-${parent}-00`],
    ['with flags that level 1 does not know', `00-${trace}-${parent}-ff`, valid],
    ['with other flags only', `00-${trace}-${parent}-02`, `00-${trace}-${parent}-00`],
    ['of a later version', `cc-${trace}-${parent}-01`, valid],
    ['of a later version, with more at its end', `01-${trace}-${parent}-01-what-ever`, valid],
  ])('%s is taken over', (_, header, taken) => {
    expect(parseTraceparent(header)).toBe(taken);
  });

  test.each([
    ['missing', undefined],
    ['empty', ''],
    ['of the version that there is not', `ff-${trace}-${parent}-01`],
    ['of version 00 with more at its end', `${valid}-more`],
    ['of version 00 with a dash at its end', `${valid}-`],
    ['of a later version with more that is not set off', `01-${trace}-${parent}-01more`],
    ['with a trace id of zeros', `00-${'0'.repeat(32)}-${parent}-01`],
    ['with a parent id of zeros', `00-${trace}-${'0'.repeat(16)}-01`],
    ['in capitals', valid.toUpperCase()],
    ['with a trace id that is too short', `00-${trace.slice(1)}-${parent}-01`],
    ['with a parent id that is too long', `00-${trace}-${parent}0-01`],
    ['without flags', `00-${trace}-${parent}`],
    ['with flags that are none', `00-${trace}-${parent}-0x`],
    ['with something before it', ` ${valid}`],
    ['with something after it', `${valid} `],
    ['with a line break', `${valid}\n`],
    ['sent twice', `${valid}, ${valid}`],
    ['no text', [valid]],
  ])('that is %s is overlooked', (_, header) => {
    expect(parseTraceparent(header)).toBeUndefined();
  });

  test('is handed on with the same trace and flags, from another span', () => {
    expect(traceIdOf(valid)).toBe(trace);
    expect(childTraceparent(valid, 'b7ad6b7169203331')).toBe(`00-${trace}-b7ad6b7169203331-01`);
    expect(parseTraceparent(childTraceparent(valid, 'b7ad6b7169203331'))).toBeDefined();
  });
});

import fc from 'fast-check';

/**
 * A text of any characters of Unicode. That of fast-check, `unit: 'binary'`, makes a table of them all first, which takes
 * two seconds.
 */
export const anyCharacters = fc
  .array(fc.integer({ min: 0, max: 0x10ffff }).filter((point) => point < 0xd800 || point > 0xdfff))
  .map((points) => String.fromCodePoint(...points));

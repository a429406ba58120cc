import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { comparableEmail } from '../../src/domain/text.ts';
import { anyCharacters } from '../support/any-characters.ts';

describe('two email addresses are the same', () => {
  test.each([
    ['in upper and lower case', 'ADA@Example.COM', 'ada@example.com'],
    ['with letters beyond ASCII', 'ÄDA@Straße.de', 'äda@straße.de'],
    ['with the ß in upper case, too', 'ÄDA@STRAẞE.DE', 'äda@straße.de'],
    ['in Cyrillic', 'ЖАННА@ПОЧТА.РФ', 'жанна@почта.рф'],
    ['in Greek, whose sigma has two lower cases', 'ΝΙΚΟΣ.Π@ΟΔΟΣ.GR', 'νικος.π@οδος.gr'],
    ['with accents in characters of their own', 'Zoe\u0308@example.com', 'ZOË@example.com'],
    ['with an accent that is one only in upper case', 'J\u030cana@example.com', 'ǰana@example.com'],
  ])('%s', (_, one, other) => {
    expect(comparableEmail(one)).toBe(comparableEmail(other));
  });

  test('in lower case, however their accents are encoded, whatever the characters', () => {
    fc.assert(
      fc.property(anyCharacters, (email) => {
        const comparable = comparableEmail(email);
        for (const other of [email.toLowerCase(), email.normalize('NFC'), email.normalize('NFD'), comparable]) {
          expect(comparableEmail(other)).toBe(comparable);
        }
      }),
    );
  });
});

describe('two email addresses differ', () => {
  test.each([
    ['by an accent', 'ada@example.com', 'äda@example.com'],
    ['by ß and ss, which are different domains', 'ada@straße.de', 'ada@strasse.de'],
    ['by a letter of another script that looks alike', 'ada@example.com', 'аda@example.com'],
  ])('%s', (_, one, other) => {
    expect(comparableEmail(one)).not.toBe(comparableEmail(other));
  });
});

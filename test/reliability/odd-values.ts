/** Texts that have broken somebody's program. */
export const oddTexts: readonly string[] = [
  '',
  ' ',
  '\0',
  'a\0b',
  '\ud800',
  '\udc00x',
  '\u202egnitirw',
  'Z̵̡̛a̴͘l̷͝g̵̕o̶',
  '👩‍👩‍👧‍👦'.repeat(40),
  '\ufeffx',
  '\u2028\u2029',
  '\u0007\u001b[31m',
  '__proto__',
  'constructor',
  "' OR 1=1 --",
  '"; DROP TABLE conversations; --',
  '%00',
  '%',
  '../../etc/passwd',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '-0',
  '1e999',
  'NaN',
  'null',
  'true',
  '9'.repeat(400),
  'x'.repeat(17_000),
  '\u{10ffff}',
  'İ'.toLowerCase(),
  '0000-00-00T00:00:00Z',
  '2026-11-21T06:12:00.000Z',
];

/** Values of JSON, as text: not all could be written by `JSON.stringify`. */
export const oddJson: readonly string[] = [
  ...['null', 'true', 'false', '0', '-0', '1', '-1', '0.1', '1e400', '-1e400', '1e-400', '9007199254740993', '""'],
  ...['[]', '{}', '[[]]', '[null]', '{"":{}}', '{"__proto__":{"a":1}}', '{"constructor":{"prototype":1}}'],
  ...['"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\uffff"', `"${'x'.repeat(5_000)}"`, `[${'0,'.repeat(2_000)}0]`],
  `${'['.repeat(300)}${']'.repeat(300)}`,
  `${'{"a":'.repeat(300)}1${'}'.repeat(300)}`,
  `{${Array.from({ length: 300 }, (_, index) => `"k${index}":${index}`).join()}}`,
  `{"a":1,"a":2}`,
];

/** Bytes that are no UTF-8, or no JSON. */
export const oddBytes: readonly Buffer[] = [
  ...[
    'ff',
    'fffe7b007d00',
    'c0af',
    'eda080',
    'f4908080',
    '7b22613a',
    '7b226122c328227d',
    'efbbbf7b7d',
    '00',
    '1f8b0800',
  ],
].map((hex) => Buffer.from(hex, 'hex'));

/**
 * The number that a JSON or GraphQL literal denotes. One that its double changes, as `9007199254740993` to
 * `9007199254740992` or `1e400` to infinity, becomes a symbol, which no schema takes: it is refused, wherever it stands,
 * rather than changed.
 * @param value the double that it is read as
 */
export function numberFrom(text: string, value = Number(text)): number | symbol {
  return isSame(text, String(value)) ? value : Symbol(text);
}

/** Whether two literals denote the same number: `1.0`, `1e0` and `10e-1` are the same as `1`. */
function isSame(one: string, other: string): boolean {
  if (one === other) return true;
  const [a, b] = [decimalOf(one), decimalOf(other)];
  return a?.digits === b?.digits && (a?.digits === '' || a?.exponent === b?.exponent);
}

/** A number without its sign, as its significant digits times a power of ten. */
function decimalOf(text: string): { digits: string; exponent: number } | undefined {
  const [, whole, fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  if (whole === undefined) return undefined; // infinite
  const digits = whole + fraction;
  let start = 0;
  while (digits[start] === '0') start++;
  let end = digits.length;
  while (end > start && digits[end - 1] === '0') end--;
  return { digits: digits.slice(start, end), exponent: Number(exponent) - fraction.length + digits.length - end };
}

import { isIP, type LookupFunction } from 'node:net';

/** Names that a test knows, each with its addresses or with the code of what goes wrong with it. All others are unknown. */
export function namesOf(table: Readonly<Record<string, readonly string[] | string>>): LookupFunction {
  return (hostname, _options, callback) => {
    const found = table[hostname] ?? 'ENOTFOUND';
    if (typeof found === 'string') callback(Object.assign(new Error(`${found} ${hostname}`), { code: found }), '');
    else
      callback(
        null,
        found.map((address) => ({ address, family: isIP(address) })),
      );
  };
}

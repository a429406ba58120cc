import { createHmac, hkdfSync } from 'node:crypto';

/**
 * Makes what visitors are kept as in events: 128 bits of an HMAC. A copy of a database in the other storage has the same.
 * @param tokenKey the key that signs tokens, from which that of the HMAC is derived
 */
export function visitorHasher(tokenKey: Uint8Array): (accountId: string, visitorId: string) => string {
  const key = new Uint8Array(hkdfSync('sha256', tokenKey, '', 'visitors of events', 32));
  return (accountId, visitorId) => {
    const hash = createHmac('sha256', key).update(`${accountId} ${visitorId}`).digest();
    return hash.subarray(0, 16).toString('base64url');
  };
}

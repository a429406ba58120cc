import { createHmac } from 'node:crypto';

/** The headers of Standard Webhooks 1.0, by which a receiver verifies a delivery. */
export interface SignatureHeaders {
  readonly 'webhook-id': string;
  readonly 'webhook-timestamp': string;
  readonly 'webhook-signature': string;
}

/**
 * Signs a body according to Standard Webhooks 1.0: HMAC-SHA256 over id, time and body, once with each secret.
 * @param id the event's id, by which a receiver recognises a repeat
 * @param secrets `whsec_` and the key in base64, newest first
 */
export function sign(id: string, sentMs: number, body: string, secrets: readonly string[]): SignatureHeaders {
  const seconds = String(Math.floor(sentMs / 1_000));
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`;
  });
  return { 'webhook-id': id, 'webhook-timestamp': seconds, 'webhook-signature': signatures.join(' ') };
}

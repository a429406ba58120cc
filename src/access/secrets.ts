import { hash, randomBytes } from 'node:crypto';
import type { Secrets } from '../domain/ports.ts';

/** API keys: `cs_` and 43 characters of base64url, which hold 256 random bits. */
export const apiKeyPattern = /^cs_[A-Za-z0-9_-]{43}$/;

export const secrets: Secrets = {
  generate: () => `cs_${randomBytes(32).toString('base64url')}`,
  generateSigningSecret: () => `whsec_${randomBytes(32).toString('base64')}`,
  hash: (secret) => hash('sha256', secret, 'buffer'),
};

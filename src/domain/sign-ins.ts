import { refuseEnded } from './api-keys.ts';
import type { Caller } from './caller.ts';
import type { Ports } from './ports.ts';

// Who signs in to the console with an API key gets a cookie that stands for it: so the key itself is in no page.

export interface SignIn {
  readonly accountId: string;
  /** The API key, with which it ends. */
  readonly keyId: string;
  /** Epoch milliseconds, exclusive. */
  readonly expiresAtMs: number;
}

const lifetimeMs = 12 * 3_600_000;

/** Of one key; a further one ends that which expires first. */
const maxSignInsOfKey = 100;

/**
 * Signs in with the API key of the caller.
 * @returns the secret that stands for it, for twelve hours or as long as the key lasts
 * @throws UNAUTHENTICATED for a key that has ended meanwhile, UNAVAILABLE
 */
export async function signIn(
  { storage, secrets, clock }: Pick<Ports, 'storage' | 'secrets' | 'clock'>,
  caller: Caller,
): Promise<{ readonly secret: string; readonly expiresAtMs: number }> {
  const secret = secrets.generateSignInSecret();
  const expiresAtMs = Math.min(clock.now() + lifetimeMs, caller.expiresAtMs ?? Number.POSITIVE_INFINITY);
  const { keyId } = caller;
  const accountId = caller.account.id;
  await storage.write(async (tx) => {
    await refuseEnded(tx, { caller, clock });
    await tx.signIns.removeOldest(accountId, keyId, maxSignInsOfKey - 1);
    await tx.signIns.insert({ accountId, keyId, expiresAtMs }, secrets.hash(secret));
  }, accountId);
  return { secret, expiresAtMs };
}

/** Ends what a secret stands for, if it stands for anything. */
export async function signOut({ storage, secrets }: Pick<Ports, 'storage' | 'secrets'>, secret: string): Promise<void> {
  const secretHash = secrets.hash(secret);
  const known = await storage.read.signIns.find(secretHash);
  if (known !== undefined) await storage.write(async (tx) => await tx.signIns.remove(secretHash), known.accountId);
}

import type { Customer, Target } from './attacker.ts';
import { bodyAttacks } from './body-attacks.ts';
import { dataAttacks } from './data-attacks.ts';
import { edgeAttacks } from './edge-attacks.ts';
import { graphqlAttacks } from './graphql-attacks.ts';
import { loadingAttacks } from './loading-attacks.ts';
import type { Outcomes } from './outcomes.ts';
import { socketAttacks } from './socket-attacks.ts';

/** One thing that an account, or somebody without one, does to the service. */
export interface Attack {
  readonly name: string;
  /** Whether the account has the hundred requests of a trial, far more, or there is none. */
  readonly limits: 'trial' | 'raised' | 'none';
  /** What the neighbour asks for besides. */
  readonly probe?: 'report' | 'delivery';
  /** Whether `npm test` tries it, with less of it. */
  readonly isShort?: true;
  /** Whether bounds alone can't keep the neighbour's waits short: only fair scheduling will. */
  readonly needsFairScheduling?: true;
  /** Whether a connection may be reset, or closed without an answer, and why. */
  readonly mayBeCutOff?: string;
  /** How much the log and the database may grow by it. */
  readonly logMiB?: number;
  readonly databaseMiB?: number;
  /** What has been there before, made by whoever attacks. @returns ids for the attack */
  readonly prepare?: (customer: Customer, isLong: boolean) => Promise<Record<string, string>>;
  readonly attack: (target: Target) => Promise<Outcomes>;
}

export const attacks: readonly Attack[] = [
  ...graphqlAttacks,
  ...socketAttacks,
  ...bodyAttacks,
  ...edgeAttacks,
  ...dataAttacks,
  ...loadingAttacks,
];

export function attackNamed(name: string): Attack {
  const found = attacks.find((attack) => attack.name === name);
  if (found === undefined) throw new Error(`There is no attack named ${name}`);
  return found;
}

/** One of each kind, of several accounts and of nobody's. */
export const everythingAtOnce: readonly Attack[] = [
  'subscriptions to answers as large as allowed',
  'queries that are as large as allowed, side by side',
  'batches of documents that take long to validate',
  'thousands of different invalid documents',
  'sockets that send ping messages without end',
  'sockets with messages of very many fragments',
  'bodies of 1 MiB that lack their last byte',
  'bodies of 1 MiB that are deep or have very many parts',
  'paths of 15 KB without a credential',
  'reports, as many in a request as allowed',
  'webhooks deleted and made anew at a receiver that hangs',
  'reads of a conversation of ten thousand messages, of a trial',
].map(attackNamed);

import type { Customer, Target } from './attacker.ts';
import { bodyAttacks } from './body-attacks.ts';
import { dataAttacks } from './data-attacks.ts';
import { edgeAttacks } from './edge-attacks.ts';
import { graphqlAttacks } from './graphql-attacks.ts';
import { loadingAttacks } from './loading-attacks.ts';
import { mcpAttacks } from './mcp-attacks.ts';
import type { Outcomes } from './outcomes.ts';
import { readPositionAttacks } from './read-position-attacks.ts';
import { searchAttacks } from './search-attacks.ts';
import { socketAttacks } from './socket-attacks.ts';
import { streamAttacks } from './stream-attacks.ts';
import { tokenAttacks } from './token-attacks.ts';

/** One thing that an account, or somebody without one, does to the service. */
export interface Attack {
  readonly name: string;
  /** Whether the account has the hundred requests of a trial, far more, or there is none. */
  readonly limits: 'trial' | 'raised' | 'none';
  /** What the neighbour asks for besides. */
  readonly probe?: 'report' | 'delivery';
  /** Whether `npm test` tries it, with less of it. */
  readonly isShort?: true;
  /** Whether it is tried with the other limits, too. */
  readonly withOtherLimits?: true;
  /** How much the database may grow by it, if that is more than usual. */
  readonly databaseMiB?: number;
  /** What has been there before, made by whoever attacks. @returns ids for the attack */
  readonly prepare?: (customer: Customer, isLong: boolean) => Promise<Record<string, string>>;
  readonly attack: (target: Target) => Promise<Outcomes>;
}

const written: readonly Attack[] = [
  ...graphqlAttacks,
  ...searchAttacks,
  ...readPositionAttacks,
  ...mcpAttacks,
  ...socketAttacks,
  ...streamAttacks,
  ...tokenAttacks,
  ...bodyAttacks,
  ...edgeAttacks,
  ...loadingAttacks,
  ...dataAttacks,
];

/** The same by an account with the other limits. */
function variantOf({ isShort: _, ...attack }: Attack): Attack {
  return attack.limits === 'trial'
    ? { ...attack, name: `${attack.name}, with raised limits`, limits: 'raised' }
    : { ...attack, name: `${attack.name}, of a trial`, limits: 'trial' };
}

export const attacks: readonly Attack[] = written.flatMap((attack) =>
  attack.withOtherLimits === true ? [attack, variantOf(attack)] : [attack],
);

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

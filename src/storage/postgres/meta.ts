import { createHash } from 'node:crypto';
import type { Statements } from './statements.ts';
import type { meta } from './tables.ts';

type Name = 'token_key' | Counter;
type Counter = 'revocations' | 'erasures';
type Row = Pick<typeof meta.$inferSelect, 'value'>;

function metaValue(db: Statements, name: Name): () => Promise<string | undefined> {
  const statement = db.prepare<Row>('SELECT value FROM meta WHERE name = :name');
  return async () => (await statement.get({ name }))?.value;
}

/** Prepares reading the key that signs tokens, which never changes. */
export function metaTokenKey(db: Statements): () => Promise<Uint8Array> {
  const tokenKey = metaValue(db, 'token_key');
  let known: Buffer | undefined;
  return async () => {
    if (known !== undefined) return known;
    const hex = await tokenKey();
    if (hex === undefined) throw new Error('The database has no key to sign tokens with');
    known = Buffer.from(hex, 'hex');
    return known;
  };
}

/** Prepares reading a counter of `meta`. */
export function metaCounter(db: Statements, name: Counter): () => Promise<number> {
  const value = metaValue(db, name);
  return async () => Number((await value()) ?? 0);
}

/** Returns what adds 1 to a counter of `meta` at the end of the transaction, which shows others that there is something new. */
export function metaIncrement({ queries }: Statements, name: Counter): () => void {
  return () => queries.sendLast(`UPDATE meta SET value = (value::bigint + 1)::text WHERE name = '${name}'`);
}

export type EpochRow = Readonly<Record<'value' | 'system' | 'timeline' | 'place', string> & { copied: string | null }>;

export const selectEpoch = `SELECT value, 'meta'::regclass::oid::text AS place,
    (SELECT system_identifier::text FROM pg_control_system()) AS system,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS timeline,
    (SELECT value FROM meta WHERE name = 'copied_epoch') AS copied
  FROM meta WHERE name = 'epoch'`;

/**
 * Prepares reading what identifies the event logs. A number of a log can be given again when a replica that lagged behind
 * becomes the primary, which shows in the timeline; when a physical backup is restored, in the timeline or the system; and
 * when a dump is, in the number of the table.
 */
export function metaEpoch(db: Statements): () => Promise<string> {
  const statement = db.prepare<EpochRow>(selectEpoch);
  let known: { readonly epoch: string; readonly losses: number | undefined } | undefined;
  return async () => {
    // It cannot change while no connection is lost: so it is read anew only after that.
    const { losses } = db.queries;
    if (known !== undefined && losses !== undefined && known.losses === losses) return known.epoch;
    const row = await statement.get();
    if (row === undefined) throw new Error('The database has no epoch');
    const epoch = epochOf(row);
    known = { epoch, losses };
    return epoch;
  };
}

/** That of the source, where all was copied from another database and the log is still the one that was copied. */
export function epochOf(row: EpochRow): string {
  const own = ownEpochOf(row);
  const [of, epoch] = row.copied?.split(' ') ?? [];
  return of === own && epoch !== undefined ? epoch : own;
}

export function ownEpochOf({ value, system, timeline, place }: EpochRow): string {
  return createHash('sha256').update([value, system, timeline, place].join(' ')).digest('hex').slice(0, 16);
}

import type { Account } from '../../domain/accounts.ts';
import type { ApiKey } from '../../domain/api-keys.ts';
import type { FoundApiKey } from '../../domain/storage-port.ts';
import { fromJson, toJson, toMs, toTimestamp } from './values.ts';

export const accountColumns = [
  'id',
  'name',
  'plan',
  'requestsPerHour',
  'createdAt',
] as const satisfies readonly (keyof Account)[];

export type AccountRow = ReturnType<typeof toAccountRow>;

export function toAccount(row: AccountRow): Account {
  return { ...row, createdAt: toTimestamp(row.createdAt) };
}

export function toAccountRow(account: Account) {
  return { ...account, createdAt: toMs(account.createdAt) };
}

export const keyColumns = [
  'id',
  'name',
  'prefix',
  'scopes',
  'expiresAt',
  'lastUsedAt',
  'createdAt',
  'revokedAt',
] as const satisfies readonly (keyof ApiKey)[];

export type KeyRow = ReturnType<typeof toKeyRow>;

export function toApiKey(row: KeyRow): ApiKey {
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    scopes: fromJson(row.scopes),
    expiresAt: toTimestamp(row.expiresAt),
    lastUsedAt: toTimestamp(row.lastUsedAt),
    createdAt: toTimestamp(row.createdAt),
    revokedAt: toTimestamp(row.revokedAt),
  };
}

export interface FoundKeyRow extends KeyRow, Pick<AccountRow, 'plan' | 'requestsPerHour'> {
  readonly accountId: string;
  readonly accountName: string;
  readonly accountCreatedAt: number;
}

export function toFoundApiKey(row: FoundKeyRow): FoundApiKey {
  const { accountId: id, accountName: name, plan, requestsPerHour, accountCreatedAt: createdAt } = row;
  return { key: toApiKey(row), account: toAccount({ id, name, plan, requestsPerHour, createdAt }) };
}

export function toKeyRow(key: ApiKey) {
  return {
    ...key,
    scopes: toJson(key.scopes),
    expiresAt: toMs(key.expiresAt),
    lastUsedAt: toMs(key.lastUsedAt),
    createdAt: toMs(key.createdAt),
    revokedAt: toMs(key.revokedAt),
  };
}

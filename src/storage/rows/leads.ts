import type { Lead } from '../../domain/leads.ts';
import { fromJson, toJson, toMs, toTimestamp } from './values.ts';

export const leadColumns = [
  'id',
  'conversationId',
  'name',
  'email',
  'phone',
  'company',
  'metadata',
  'createdAt',
] as const satisfies readonly (keyof Lead)[];

export type LeadRow = ReturnType<typeof toLeadRow>;

export function toLead(row: LeadRow): Lead {
  return { ...row, metadata: fromJson(row.metadata), createdAt: toTimestamp(row.createdAt) };
}

export function toLeadRow(lead: Lead) {
  return { ...lead, metadata: toJson(lead.metadata), createdAt: toMs(lead.createdAt) };
}

import type { ListedDocument, StoredDocument } from '../../domain/documents.ts';
import { toTimestamp } from './values.ts';

export const documentColumns = ['number', 'id', 'text', 'createdAt'] as const;
export const listedDocumentColumns = ['number', 'id', 'bytes', 'createdAt'] as const;

export interface DocumentRow extends Omit<StoredDocument, 'createdAt'> {
  readonly createdAt: number;
}

export interface ListedDocumentRow extends Omit<ListedDocument, 'createdAt' | 'text'> {
  readonly createdAt: number;
  /** Where it is read along with the page. */
  readonly text?: string | null;
}

export function toDocument({ number, id, text, createdAt }: DocumentRow): StoredDocument {
  return { number, id, text, createdAt: toTimestamp(createdAt) };
}

export function toListedDocument({ number, id, bytes, createdAt, text }: ListedDocumentRow): ListedDocument {
  return { number, id, bytes, createdAt: toTimestamp(createdAt), ...(text != null && { text }) };
}

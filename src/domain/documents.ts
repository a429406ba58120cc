import * as z from 'zod';
import { refuseEnded } from './api-keys.ts';
import type { Awaitable } from './awaitable.ts';
import { refuseTrustedOnly } from './caller.ts';
import { DomainError, type Fault, notFound, validationFailed } from './errors.ts';
import { currentEventCursor } from './event-cursor.ts';
import { type Context, operation } from './operation.ts';
import { checkStart, decodeCursor, encodeCursor, type List, pageInput, pageWithTotal } from './paging.ts';
import type { Secrets } from './ports.ts';
import { textShape } from './shapes.ts';
import type { Reads } from './storage-port.ts';
import { line, proseOfBytes, refusing } from './text.ts';
import { timeShape, timestamp } from './time.ts';

// GraphQL documents that an account has registered, so that its clients call them by id. To the domain they are texts.

const maxDocuments = 5_000;
const maxKibibytes = 16;
const maxMebibytesInAll = 16;
/** How many can be registered at once. */
export const maxAtOnce = 100;

const exampleDocumentId = 'sha256:7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069';

export const documentShape = z
  .object({
    id: textShape(
      'The id by which clients call it: that of the tool which has found it in their code.',
      exampleDocumentId,
    ),
    text: textShape('Its text, in GraphQL.', 'query Account { account { name } }'),
    createdAt: timeShape.describe('When it was registered.'),
  })
  .meta({ id: 'TrustedDocument', description: 'A GraphQL document that clients call by its id.' });

export type TrustedDocument = Readonly<z.output<typeof documentShape>>;

/** As it is stored: numbered in its account in the order of registration, in which it is listed. */
export interface StoredDocument extends TrustedDocument {
  readonly number: number;
}

/** As it is listed. */
export interface ListedDocument extends Omit<StoredDocument, 'text'> {
  /** It can be long, and is read only where it is wanted, unless the storage has read it along. */
  readonly text?: string | undefined;
  /** Of its text, in UTF-8. */
  readonly bytes: number;
}

export interface DocumentList extends List<ListedDocument> {
  /** The documents of the page with their texts, but for those that are deleted meanwhile. */
  withTexts(): Promise<readonly TrustedDocument[]>;
}

/** Two of them would be steps in a path. */
const steps: readonly string[] = ['.', '..'];

const documentIdInput = line(128, 1).check(
  refusing((id) => (steps.includes(id) ? 'must be neither `.` nor `..`' : undefined)),
);

/** A SHA-256, by which automatic persisted queries call a document, too. */
const sha256Pattern = /^[0-9a-f]{64}$/i;

export const registerDocuments = operation({
  name: 'registerDocuments',
  summary:
    'Registers GraphQL documents under the ids by which clients call them. An id keeps its text for as long as it is registered.',
  scope: 'keys:manage',
  input: z.strictObject({
    documents: z
      .array(
        z.strictObject({
          id: documentIdInput
            .describe(
              'The id by which clients will call it: 1 to 128 characters. One of 64 hexadecimal digits must be the SHA-256 of the text.',
            )
            .meta({ examples: [exampleDocumentId] }),
          text: proseOfBytes(maxKibibytes * 1_024, `${maxKibibytes} KiB`)
            .describe(`Its text, in GraphQL: at most ${maxKibibytes} KiB.`)
            .meta({ examples: ['query Account { account { name } }'] }),
        }),
        { error: 'must be a list' },
      )
      .min(1, { error: 'must not be empty' })
      .max(maxAtOnce, { error: `must have at most ${maxAtOnce} entries` })
      .describe(`The documents, at most ${maxAtOnce}. One that is registered already stays as it is.`),
  }),
  errors: ['ALREADY_EXISTS', 'QUOTA_EXCEEDED'],
  async run(context, input): Promise<RegisteredDocuments> {
    const { caller, storage, secrets, now } = context;
    refuseTrustedOnly(caller, 'A token for registered documents only cannot register others.');
    const accountId = caller.account.id;
    const asked = different(input.documents, secrets);
    return await storage.write(async (tx) => {
      await refuseEnded(tx, context);
      const known = await tx.documents.findMany(accountId, [...asked.keys()]);
      const numbers = new Map<string, number>();
      const documents = [...asked].map(([id, text], index): TrustedDocument => {
        const registered = known[index];
        if (registered === undefined) return { id, text, createdAt: timestamp(now) };
        numbers.set(id, registered.number);
        if (registered.text !== text) {
          throw new DomainError('ALREADY_EXISTS', `The document \`${id}\` has another text; an id keeps its text.`);
        }
        return documentView(registered);
      });
      const added = documents.filter((_, index) => known[index] === undefined);
      if (added.length > 0) refuseTooMany(await tx.documents.totals(accountId), added);
      for (const document of added) numbers.set(document.id, await tx.documents.insert(accountId, document));
      const cursorOf = ({ id }: TrustedDocument): string => cursorAt(numbers.get(id) ?? 0);
      return { documents, cursorOf, eventCursor: await currentEventCursor(tx, accountId) };
    });
  },
});

export interface RegisteredDocuments extends Pick<List<TrustedDocument>, 'cursorOf'> {
  readonly documents: readonly TrustedDocument[];
  /** The end of the event log at that time. */
  readonly eventCursor: string;
}

/**
 * The texts by their ids.
 * @throws VALIDATION_FAILED for an id that cannot be that of its text, or that has two
 */
function different(
  documents: readonly { readonly id: string; readonly text: string }[],
  secrets: Secrets,
): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  const faults: Fault[] = [];
  for (const [index, { id, text }] of documents.entries()) {
    const path = ['documents', index, 'id'];
    if (sha256Pattern.test(id) && id !== Buffer.from(secrets.hash(text)).toString('hex')) {
      faults.push({
        path,
        detail: 'must be the SHA-256 of the text in lower case, since it has 64 hexadecimal digits',
      });
    } else if ((texts.get(id) ?? text) !== text) {
      faults.push({ path, detail: 'is given twice, with different texts' });
    }
    texts.set(id, text);
  }
  if (faults.length > 0) throw validationFailed(faults);
  return texts;
}

/** @throws QUOTA_EXCEEDED */
function refuseTooMany({ count, bytes }: DocumentTotals, added: readonly TrustedDocument[]): void {
  const more = added.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  if (count + added.length <= maxDocuments && bytes + more <= maxMebibytesInAll * 1_024 * 1_024) return;
  throw new DomainError(
    'QUOTA_EXCEEDED',
    `An account can register ${maxDocuments.toLocaleString('en-GB')} documents, of ${maxMebibytesInAll} MiB together; delete those that no client calls any more.`,
  );
}

/** The documents of an account. */
export interface DocumentTotals {
  readonly count: number;
  /** Of their texts, in UTF-8. */
  readonly bytes: number;
}

function documentView({ id, text, createdAt }: StoredDocument): TrustedDocument {
  return { id, text, createdAt };
}

const sort = '-createdAt';

function cursorAt(number: number): string {
  return encodeCursor(sort, [number]);
}

export const listDocuments = operation({
  name: 'listDocuments',
  summary: 'Lists the account’s registered GraphQL documents, newest first.',
  scope: 'keys:manage',
  input: z.strictObject(pageInput(sort, [1])).check(checkStart({ [sort]: ['number'] })),
  errors: [],
  async run(context, { limit, offset = 0, after, total }): Promise<DocumentList> {
    const { documents } = context.storage.read;
    const accountId = context.caller.account.id;
    const [number] = after === undefined ? [] : decodeCursor(after, sort, ['number']);
    const query = { limit, offset, after: number as number | undefined };
    const countOf = async (): Promise<number> => (await documents.totals(accountId)).count;
    const [{ items, hasMore }, totals] = await pageWithTotal(() => documents.page(accountId, query), countOf, total);
    return {
      ...totals,
      items,
      hasMore,
      limit,
      offset,
      isEmpty: async () => (await countOf()) === 0,
      cursorOf: ({ number }) => cursorAt(number),
      async withTexts() {
        const along = items.flatMap(({ text }) => text ?? []);
        const ids = items.map(({ id }) => id);
        const texts = along.length === items.length ? along : await documentTexts(context, ids);
        return items.flatMap(({ id, createdAt }, index) => {
          const text = texts[index];
          return text === undefined ? [] : { id, text, createdAt };
        });
      },
    };
  },
});

/**
 * The texts of documents of a list, in the order of the ids; undefined for those that were deleted.
 * @throws FORBIDDEN
 */
export async function documentTexts(
  { caller, storage, turns }: Pick<Context, 'caller' | 'storage' | 'turns'>,
  ids: readonly string[],
): Promise<readonly (string | undefined)[]> {
  listDocuments.authorise(caller);
  await turns.step(caller.account.id); // a page of them can have more than a megabyte
  const found = await storage.read.documents.findMany(caller.account.id, ids);
  return found.map((document) => document?.text);
}

/** Replaces text that cannot be the id of a document, which may be as long as a request. Nothing has this id either. */
const nobodysId = '';

export const deleteDocument = operation({
  name: 'deleteDocument',
  summary: 'Deletes a registered GraphQL document. No client can call it by its id any more.',
  scope: 'keys:manage',
  input: z.strictObject({
    id: z
      .string({ error: 'must be a string' })
      .overwrite((text) => (isDocumentId(text) ? text : nobodysId))
      .describe('The document’s id.')
      .meta({ examples: [exampleDocumentId] }),
  }),
  errors: ['NOT_FOUND'],
  async run(context, { id }) {
    const { caller, storage } = context;
    const accountId = caller.account.id;
    return await storage.write(async (tx) => {
      await refuseEnded(tx, context);
      if (!(await tx.documents.remove(accountId, id))) throw notFound('document');
      return { deletedDocumentId: id, eventCursor: await currentEventCursor(tx, accountId) };
    });
  },
});

function isDocumentId(text: string): boolean {
  return documentIdInput.safeParse(text).success;
}

/** The text of a registered document; undefined if there is none with this id. */
export function registeredText(
  { documents }: Pick<Reads, 'documents'>,
  accountId: string,
  id: string,
): Awaitable<string | undefined> {
  return isDocumentId(id) ? documents.text(accountId, id) : undefined;
}

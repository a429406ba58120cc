import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TrustedDocument } from '../../../src/domain/documents.ts';
import type { Storage } from '../../../src/domain/storage-port.ts';
import { timestamp } from '../../../src/domain/time.ts';
import { effort } from '../../support/effort.ts';
import { awkwardText, start, startMs, storedAccount } from '../../support/samples.ts';
import type { OpenedStorage } from './opened.ts';

const sampleDocument = (id: string, text = `query ${id} { account { name } }`): TrustedDocument => ({
  id,
  text,
  createdAt: start,
});

/** What every storage promises of registered documents: a part of `storageContract`. */
export function documentsContract(open: () => Promise<OpenedStorage>): void {
  describe('documents', () => {
    test('are read back as they were stored, under whatever id, also after a restart', async () => {
      const { storage, reopen } = await open();
      const { id: accountId } = await storedAccount(storage);
      const documents = [
        sampleDocument('a'),
        sampleDocument(awkwardText, `# ${awkwardText}\n{ account { name } }`),
        sampleDocument('sha256:Ab/?&=%2F#', ' \t\r\n\u000b{ __typename }\u2028'),
        { ...sampleDocument('x'.repeat(128), 'y'.repeat(16_384)), createdAt: timestamp(startMs + 1) },
      ];
      await storage.write(async (tx) => {
        for (const document of documents) await tx.documents.insert(accountId, document);
        expect(await tx.documents.text(accountId, awkwardText)).toBe(documents[1]?.text);
      });
      const expectAll = async ({ read }: Storage): Promise<void> => {
        const stored = documents.map((document, index) => ({ ...document, number: index + 1 }));
        const ids = documents.map(({ id }) => id);
        expect(await read.documents.findMany(accountId, ids)).toEqual(stored);
        for (const { id, text } of documents) expect(await read.documents.text(accountId, id)).toBe(text);
      };
      await expectAll(storage);
      await expectAll(await reopen());
    });

    test('are found by many ids at once, in the order of the ids, and by no other spelling of one', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      await storage.write(async (tx) => {
        for (const id of ['a', 'b', 'é']) await tx.documents.insert(accountId, sampleDocument(id));
      });
      const asked = ['b', 'c', 'a', 'b', 'A', 'a ', 'e\u0301', '', "'", '%'];
      const found = await storage.read.documents.findMany(accountId, asked);
      expect(found.map((document) => document?.id)).toEqual(['b', undefined, 'a', 'b', ...Array(6).fill(undefined)]);
      expect(await storage.read.documents.findMany(accountId, [])).toEqual([]);
      expect(await storage.read.documents.text(accountId, 'A')).toBeUndefined();
    });

    test('keep their id from another one', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const insert = (text: string) =>
        storage.write(async (tx) => tx.documents.insert(accountId, sampleDocument('a', text)));
      await insert('{ __typename }');
      await expect(insert('{ eventCursor }')).rejects.toThrow();
      expect(await storage.read.documents.text(accountId, 'a')).toBe('{ __typename }');
    });

    test('are paged by descending number as by a plain sort, and counted with their bytes, without removed ones', async () => {
      const { storage } = await open();
      const questions = fc.array(
        fc.record({ limit: fc.integer({ min: 1, max: 5 }), offset: fc.nat(4), after: fc.option(fc.nat(14)) }),
        { minLength: 1, maxLength: 4 },
      );
      const seeds = fc.array(fc.record({ removed: fc.boolean(), text: fc.constantFrom('{ a }', '# é 👍') }), {
        maxLength: 12,
      });
      await fc.assert(
        fc.asyncProperty(seeds, questions, async (documents, asked) => {
          const { id: accountId } = await storedAccount(storage);
          await storage.write(async (tx) => {
            for (const [index, { text }] of documents.entries()) {
              await tx.documents.insert(accountId, sampleDocument(`d${index + 1}`, text));
            }
            for (const [index, { removed }] of documents.entries()) {
              if (removed) expect(await tx.documents.remove(accountId, `d${index + 1}`)).toBe(true);
            }
          });
          const kept = documents.flatMap(({ removed, text }, index) => (removed ? [] : [{ number: index + 1, text }]));
          const newest = kept.toReversed();
          for (const { limit, offset, after } of asked) {
            const rest = newest.filter(({ number }) => after === null || number < after).slice(offset);
            const page = await storage.read.documents.page(accountId, { limit, offset, after: after ?? undefined });
            const listed = rest.slice(0, limit).map(({ number, text }) => {
              return { number, id: `d${number}`, bytes: Buffer.byteLength(text), createdAt: start, text };
            });
            expect(page.items.map((item, index) => ({ text: listed[index]?.text, ...item }))).toEqual(listed);
            expect(page.hasMore).toBe(rest.length > limit);
          }
          const totals = {
            count: kept.length,
            bytes: kept.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0),
          };
          expect(await storage.read.documents.totals(accountId)).toEqual(totals);
          expect(await storage.write(async (tx) => tx.documents.totals(accountId))).toEqual(totals);
        }),
        { numRuns: effort(8, 20) },
      );
    });

    test('can be removed once, and registered again with another text', async () => {
      const { storage } = await open();
      const { id: accountId } = await storedAccount(storage);
      const remove = () => storage.write(async (tx) => tx.documents.remove(accountId, 'a'));
      expect(await remove()).toBe(false);
      await storage.write(async (tx) => tx.documents.insert(accountId, sampleDocument('a', '{ __typename }')));
      expect([await remove(), await remove()]).toEqual([true, false]);
      expect(await storage.read.documents.text(accountId, 'a')).toBeUndefined();
      await storage.write(async (tx) => tx.documents.insert(accountId, sampleDocument('a', '{ eventCursor }')));
      expect(await storage.read.documents.text(accountId, 'a')).toBe('{ eventCursor }');
    });
  });
}

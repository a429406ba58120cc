import postgres from 'postgres';
import { expect, onTestFinished } from 'vitest';
import { systemClock } from '../../src/server/clock.ts';
import { openPostgresStorage } from '../../src/storage/postgres/storage.ts';
import { longTest as test } from '../support/effort.ts';
import { postgresServer } from '../support/postgres.ts';
import { sampleConversation, storedAccount } from '../support/samples.ts';

const { database } = postgresServer();

test('an account whose reads hang leaves connections for the reads of others', async () => {
  const url = await database();
  const storage = await openPostgresStorage(url, { clock: systemClock });
  onTestFinished(() => storage.close());
  const [mine, theirs] = [await storedAccount(storage), await storedAccount(storage)];
  const conversation = sampleConversation();
  await storage.write(async (tx) => tx.conversations.insert(mine.id, conversation), mine.id);
  const operator = postgres(url, { max: 1, fetch_types: false });
  onTestFinished(() => operator.end());
  let answered = 0;
  const reading = await operator.begin(async (transaction) => {
    await transaction`LOCK TABLE conversations IN ACCESS EXCLUSIVE MODE`;
    const hanging = Array.from({ length: 50 }, async () => {
      const found = await storage.read.conversations.find(mine.id, conversation.id);
      answered++;
      return found;
    });
    const all = Promise.allSettled(hanging);
    for (let count = 0; count < 20; count++) await storage.read.accounts.totals(theirs.id);
    expect(answered).toBe(0);
    return { all };
  });
  const found = await reading.all;
  expect(found).toEqual(Array.from({ length: 50 }, () => ({ status: 'fulfilled', value: conversation })));
});

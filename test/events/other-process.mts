import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { sampleConversation, sampleEvent } from '../support/samples.ts';

// Another process on the same file. It appends an event to each account that it is sent, and answers
// with the time of the commit.

const storage = openSqliteStorage(process.argv[2] ?? '');
process.on('message', (accountId: string) => {
  void storage
    .write(async (tx) => tx.events.append(accountId, [sampleEvent(sampleConversation())]))
    .then(() => process.send?.(Date.now()));
});
process.on('disconnect', () => void storage.close());
process.send?.('ready');

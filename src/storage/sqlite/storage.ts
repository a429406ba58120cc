import type { Reads, Storage, Transaction } from '../../domain/storage-port.ts';
import { accountReads, accountWrites, apiKeyReads, apiKeyWrites } from './accounts.ts';
import { analyticsReads, analyticsWrites } from './analytics.ts';
import { Checkpointer, emptyLog } from './checkpointer.ts';
import { CommitWatch } from './commit-watch.ts';
import { conversationReads, conversationWrites } from './conversations.ts';
import { deliveryReads, deliveryWrites } from './deliveries.ts';
import { documentReads, documentWrites } from './documents.ts';
import { patient } from './errors.ts';
import { eventReads, eventWrites } from './events.ts';
import { makePrivate, realFile, requireWritable } from './files.ts';
import { idempotencyReads, idempotencyWrites } from './idempotency.ts';
import { leadReads, leadWrites } from './leads.ts';
import { rateWindowReads, rateWindowWrites } from './limits.ts';
import { messageReads, messageWrites } from './messages.ts';
import {
  type Connection,
  type ConnectionOptions,
  type MigrationReport,
  migrate,
  openReader,
  openTimeoutMs,
  openWriter,
  refuseSuperseded,
  stopBlocking,
  withOpenLock,
} from './open.ts';
import { readPositionReads, readPositionWrites } from './read-positions.ts';
import { searchReads } from './search.ts';
import { searchWrites, textWrites } from './search-index.ts';
import { SearchIndexer } from './search-indexer.ts';
import { signInReads, signInWrites } from './sign-ins.ts';
import { Statements } from './statements.ts';
import { scoped, type WorkScope } from './transaction-scope.ts';
import { webhookReads, webhookWrites } from './webhooks.ts';
import { Writer, type WriterOptions } from './writer.ts';

/** Few, since the event loop waits for them: a delivery is removed with its responses, and a result can be large, too. */
const pruneSizes = { deliveries: 1, events: 32, idempotencyRecords: 1, apiKeys: 32, signIns: 32 };

export interface SqliteStorage extends Storage {
  readonly migrations: MigrationReport;
  /** Whether every user of the machine could read the file until it was opened now. */
  readonly wasPublic: boolean;
}

export interface SqliteOptions extends WriterOptions, ConnectionOptions {
  /** Called when the thread that checkpoints the write-ahead log has failed: commits do it from then on. */
  readonly onThreadFailure?: ((error: unknown) => void) | undefined;
}

/**
 * Opens the storage in a SQLite file. Creates the file and migrates it if need be.
 * @throws Error when the file was migrated by a newer version of the program, or made by one before its first release
 */
export function openSqliteStorage(file: string, options: SqliteOptions = {}): SqliteStorage {
  const { busyTimeoutMs = 5_000 } = options;
  const path = realFile(file);
  const wasPublic = makePrivate(path);
  requireWritable(path);
  const { writing, reading, migrations } = withOpenLock(path, openTimeoutMs, () => openBoth(path, options));
  const checkpointer = new Checkpointer(path, writing, options.onThreadFailure);
  if (!emptyLog(writing)) checkpointer.empty(); // in case a process was killed right after erasing something
  const watch = new CommitWatch(writing, reading, checkpointer.empty);
  const indexer = new SearchIndexer(() => writer.write((tx) => Promise.resolve(tx.search.index())));
  const writer: Writer<Transaction> = new Writer(
    writing,
    transactionsOn(new Statements(writing), watch, indexer.added),
    {
      ...options,
      onBegin: refuseSuperseded(writing),
      onCommit: () => {
        watch.committed();
        checkpointer.committed();
        indexer.committed();
      },
    },
  );
  return {
    migrations,
    wasPublic,
    read: readsOn(new Statements(reading), busyTimeoutMs),
    write: (work, accountId) => writer.write(work, accountId),
    watch: (listener) => watch.watch(listener),
    check: patient(checkOf(reading), busyTimeoutMs).check,
    get waitingWrites() {
      return writer.waiting;
    },
    writeWaitMs: (accountId) => writer.waitMs(accountId),
    pruneSizes,
    async close() {
      await writer.close();
      await checkpointer.close();
      watch.close();
      reading.close();
      emptyLog(writing); // if other processes have it open, the last one to close it will do it
      writing.close();
    },
  };
}

/** Reads from the file, and checks that no newer version has migrated it. */
function checkOf(connection: Connection): { check(): void } {
  const statement = connection.prepare('SELECT value FROM meta LIMIT 1');
  const refuse = refuseSuperseded(connection);
  const check = connection.transaction(() => {
    refuse();
    statement.get();
  });
  return { check };
}

function openBoth(path: string, options: ConnectionOptions) {
  const writing = openWriter(path, options);
  try {
    const migrations = migrate(writing);
    stopBlocking(writing);
    return { writing, reading: openReader(path, options), migrations };
  } catch (error) {
    writing.close();
    throw error;
  }
}

function readsOn(db: Statements, busyTimeoutMs: number): Reads {
  return {
    accounts: patient(accountReads(db), busyTimeoutMs),
    apiKeys: patient(apiKeyReads(db), busyTimeoutMs),
    signIns: patient(signInReads(db), busyTimeoutMs),
    conversations: patient(conversationReads(db), busyTimeoutMs),
    messages: patient(messageReads(db), busyTimeoutMs),
    readPositions: patient(readPositionReads(db), busyTimeoutMs),
    events: patient(eventReads(db), busyTimeoutMs),
    leads: patient(leadReads(db), busyTimeoutMs),
    webhooks: patient(webhookReads(db), busyTimeoutMs),
    deliveries: patient(deliveryReads(db), busyTimeoutMs),
    documents: patient(documentReads(db), busyTimeoutMs),
    idempotencyRecords: patient(idempotencyReads(db), busyTimeoutMs),
    analytics: patient(analyticsReads(db), busyTimeoutMs),
    search: patient(searchReads(db), busyTimeoutMs),
    rateWindows: patient(rateWindowReads(db), busyTimeoutMs),
  };
}

function transactionsOn(db: Statements, watch: CommitWatch, onWaiting: () => void): (scope: WorkScope) => Transaction {
  const touchedAll = () => watch.touches.touchedAll();
  const onAppend = (accountId: string) => watch.touches.grew(accountId);
  const onDue = (accountId: string, webhookId: string) => watch.touches.becameDue(accountId, webhookId);
  const accounts = scoped({ ...accountReads(db), ...accountWrites(db) }, db.connection);
  const apiKeys = scoped({ ...apiKeyReads(db), ...apiKeyWrites(db, touchedAll) }, db.connection);
  const signIns = scoped({ ...signInReads(db), ...signInWrites(db) }, db.connection);
  const texts = textWrites(db, onWaiting);
  const hooks = { onHide: touchedAll, onGone: watch.erased };
  const conversations = scoped({ ...conversationReads(db), ...conversationWrites(db, texts, hooks) }, db.connection);
  const messages = scoped({ ...messageReads(db), ...messageWrites(db, texts) }, db.connection);
  const readPositions = scoped({ ...readPositionReads(db), ...readPositionWrites(db) }, db.connection);
  const events = scoped({ ...eventReads(db), ...eventWrites(db, onAppend) }, db.connection);
  const leads = scoped({ ...leadReads(db), ...leadWrites(db) }, db.connection);
  const webhooks = scoped({ ...webhookReads(db), ...webhookWrites(db, onDue) }, db.connection);
  const deliveries = scoped({ ...deliveryReads(db), ...deliveryWrites(db, onDue) }, db.connection);
  const documents = scoped({ ...documentReads(db), ...documentWrites(db) }, db.connection);
  const idempotencyRecords = scoped({ ...idempotencyReads(db), ...idempotencyWrites(db) }, db.connection);
  const analytics = scoped(analyticsWrites(db), db.connection);
  const search = scoped(searchWrites(db), db.connection);
  const rateWindows = scoped({ ...rateWindowReads(db), ...rateWindowWrites(db) }, db.connection);
  return (scope) => ({
    accounts: accounts(scope),
    apiKeys: apiKeys(scope),
    signIns: signIns(scope),
    conversations: conversations(scope),
    messages: messages(scope),
    readPositions: readPositions(scope),
    events: events(scope),
    leads: leads(scope),
    webhooks: webhooks(scope),
    deliveries: deliveries(scope),
    documents: documents(scope),
    idempotencyRecords: idempotencyRecords(scope),
    analytics: analytics(scope),
    search: search(scope),
    rateWindows: rateWindows(scope),
  });
}

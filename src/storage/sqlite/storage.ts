import type { Reads, Storage, Transaction } from '../../domain/storage-port.ts';
import { accountReads, accountWrites } from './accounts.ts';
import { analyticsReads, analyticsWrites } from './analytics.ts';
import { apiKeyReads, apiKeyWrites } from './api-keys.ts';
import { patient } from './busy-retry.ts';
import { cachedAccountReads, cachedApiKeyReads, cachedConversationReads, cachedMessageReads } from './cached-reads.ts';
import { Checkpointer } from './checkpointer.ts';
import { Commits } from './commit-cache.ts';
import { CommitWatch } from './commit-watch.ts';
import { openQueries } from './compiled-queries.ts';
import { conversationReads, conversationWrites } from './conversations.ts';
import { deliveryReads } from './delivery-reads.ts';
import { deliveryWrites } from './delivery-writes.ts';
import { eventReads, eventWrites } from './events.ts';
import { requireWritable } from './files.ts';
import { keptResultReads, keptResultWrites } from './kept-results.ts';
import { leadReads, leadWrites } from './leads.ts';
import { messageReads, messageWrites } from './messages.ts';
import {
  type Connection,
  type ConnectionOptions,
  type MigrationReport,
  migrate,
  openReader,
  openTimeoutMs,
  openWriter,
  stopBlocking,
} from './open.ts';
import { withOpenLock } from './open-lock.ts';
import type { Queries } from './queries.ts';
import { rateWindowReads, rateWindowWrites } from './rate-windows.ts';
import { refuseSuperseded } from './schema-guard.ts';
import { scoped, type WorkScope } from './transaction-scope.ts';
import { webhookReads, webhookWrites } from './webhooks.ts';
import { emptyLog } from './write-ahead-log.ts';
import { Writer, type WriterOptions } from './writer.ts';

export interface SqliteStorage extends Storage {
  readonly migrations: MigrationReport;
}

export interface SqliteOptions extends WriterOptions, ConnectionOptions {
  /** Called when the thread that checkpoints the write-ahead log has failed: commits do it from then on. */
  readonly onThreadFailure?: ((error: unknown) => void) | undefined;
}

/**
 * Opens the storage in a SQLite file. Creates the file and migrates it if need be.
 * @throws Error when the file was migrated by a newer version of the program
 */
export function openSqliteStorage(path: string, options: SqliteOptions = {}): SqliteStorage {
  const { busyTimeoutMs = 5_000 } = options;
  const { writing, reading, migrations } = openConnections(path, options);
  const watch = new CommitWatch(writing, reading);
  watch.cleanLog(); // in case a process was killed right after erasing something
  const commits = new Commits(reading);
  const checkpointer = new Checkpointer(path, writing, options.onThreadFailure);
  const writer = new Writer(writing, transactionsOn(openQueries(writing), watch), {
    ...options,
    onBegin: refuseSuperseded(writing),
    onCommit: () => {
      commits.askAgain();
      watch.committed();
      checkpointer.committed();
    },
  });
  return {
    migrations,
    read: readsOn(openQueries(reading), commits, busyTimeoutMs),
    holdReads: () => commits.hold(),
    state: patient({ state: () => commits.state }, busyTimeoutMs).state,
    write: (work) => writer.write(work),
    watch: (listener) => watch.watch(listener),
    check: patient(checkOf(reading), busyTimeoutMs).check,
    get waitingWrites() {
      return writer.waiting;
    },
    get writeBacklogMs() {
      return writer.backlogMs;
    },
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

/** Reads from the file itself, past all caches, and checks that no newer version has migrated it. */
function checkOf(connection: Connection): { check(): void } {
  const statement = connection.prepare('SELECT value FROM meta LIMIT 1');
  const refuse = refuseSuperseded(connection);
  const check = connection.transaction(() => {
    refuse();
    statement.get();
  });
  return { check };
}

function openConnections(path: string, options: ConnectionOptions) {
  requireWritable(path);
  return withOpenLock(path, openTimeoutMs, () => openBoth(path, options));
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

function readsOn(db: Queries, commits: Commits, busyTimeoutMs: number): Reads {
  return {
    accounts: patient(cachedAccountReads(db, commits), busyTimeoutMs),
    apiKeys: patient(cachedApiKeyReads(db, commits), busyTimeoutMs),
    conversations: patient(cachedConversationReads(db, commits), busyTimeoutMs),
    messages: patient(cachedMessageReads(db), busyTimeoutMs),
    events: patient(eventReads(db), busyTimeoutMs),
    leads: patient(leadReads(db), busyTimeoutMs),
    webhooks: patient(webhookReads(db), busyTimeoutMs),
    deliveries: patient(deliveryReads(db), busyTimeoutMs),
    keptResults: patient(keptResultReads(db), busyTimeoutMs),
    analytics: patient(analyticsReads(db), busyTimeoutMs),
    rateWindows: patient(rateWindowReads(db), busyTimeoutMs),
  };
}

function transactionsOn(db: Queries, watch: CommitWatch): (scope: WorkScope) => Transaction {
  const accounts = scoped({ ...accountReads(db), ...accountWrites(db) }, db.$client);
  const apiKeys = scoped({ ...apiKeyReads(db), ...apiKeyWrites(db, watch.endedCredential) }, db.$client);
  const erasure = { onHide: watch.hid, onGone: watch.erased };
  const conversations = scoped({ ...conversationReads(db), ...conversationWrites(db, erasure) }, db.$client);
  const messages = scoped({ ...messageReads(db), ...messageWrites(db) }, db.$client);
  const events = scoped({ ...eventReads(db), ...eventWrites(db, watch.grew) }, db.$client);
  const leads = scoped({ ...leadReads(db), ...leadWrites(db) }, db.$client);
  const webhooks = scoped({ ...webhookReads(db), ...webhookWrites(db, watch.becameDue) }, db.$client);
  const deliveries = scoped({ ...deliveryReads(db), ...deliveryWrites(db, watch.becameDue) }, db.$client);
  const keptResults = scoped({ ...keptResultReads(db), ...keptResultWrites(db) }, db.$client);
  const analytics = scoped({ ...analyticsReads(db), ...analyticsWrites(db) }, db.$client);
  const rateWindows = scoped({ ...rateWindowReads(db), ...rateWindowWrites(db) }, db.$client);
  return (scope) => ({
    accounts: accounts(scope),
    apiKeys: apiKeys(scope),
    conversations: conversations(scope),
    messages: messages(scope),
    events: events(scope),
    leads: leads(scope),
    webhooks: webhooks(scope),
    deliveries: deliveries(scope),
    keptResults: keptResults(scope),
    analytics: analytics(scope),
    rateWindows: rateWindows(scope),
  });
}

import type { Clock } from '../../domain/ports.ts';
import type { Reads, Storage, Transaction } from '../../domain/storage-port.ts';
import { accountReads, accountWrites, apiKeyReads, apiKeyWrites } from './accounts.ts';
import { analyticsReads, analyticsWrites } from './analytics.ts';
import { CommitWatch } from './commit-watch.ts';
import { type ConnectionOptions, connect, Pool } from './connections.ts';
import { conversationReads, conversationWrites } from './conversations.ts';
import { deliveryReads, deliveryWrites } from './deliveries.ts';
import { documentReads, documentWrites } from './documents.ts';
import { asDomainError } from './errors.ts';
import { eventReads, eventWrites } from './events.ts';
import { idempotencyReads, idempotencyWrites } from './idempotency.ts';
import { leadReads, leadWrites } from './leads.ts';
import { rateWindowReads, rateWindowWrites } from './limits.ts';
import { messageReads, messageWrites } from './messages.ts';
import { explainNewer, isNotNewer, type MigrationReport, migrate } from './migrate.ts';
import { readPositionReads, readPositionWrites } from './read-positions.ts';
import { searchReads, searchWrites } from './search.ts';
import { textWrites } from './search-index.ts';
import { Session } from './session.ts';
import { signInReads, signInWrites } from './sign-ins.ts';
import { Statements } from './statements.ts';
import { webhookReads, webhookWrites } from './webhooks.ts';
import { scoped, type WorkScope } from './work-scope.ts';
import { Writer, type WriterOptions, type Writing } from './writer.ts';

/** Many, since each time is a way to the database and back; of deliveries fewer, which are removed with their responses. */
const pruneSizes = { deliveries: 32, events: 128, idempotencyRecords: 128, apiKeys: 128, signIns: 128 };

export interface PostgresStorage extends Storage {
  readonly migrations: MigrationReport;
  /** Who may read it, PostgreSQL decides. */
  readonly wasPublic: false;
}

export interface PostgresOptions extends Omit<WriterOptions, 'onCommit'>, ConnectionOptions {
  /** This machine's clocks, between readings of the database's. */
  readonly clock: Clock;
  /** The address of the database itself, if the other one is that of a proxy. */
  readonly directUrl?: string | undefined;
  /** The maximum number of connections for reads. */
  readonly maxReaders?: number | undefined;
}

/**
 * Opens the storage in a PostgreSQL database, and migrates it if need be.
 * @throws Error when the database was migrated by a newer version of the program
 */
export async function openPostgresStorage(url: string, given: PostgresOptions): Promise<PostgresStorage> {
  const { clock, directUrl = url, maxReaders = 4 } = given;
  const options = { ...given, isProxied: directUrl !== url };
  const direct = { ...given, isProxied: false };
  const migrations = await migrate(directUrl, direct);
  const pool = new Pool(url, maxReaders, options);
  if (options.isProxied) await requireSame(pool, new Pool(directUrl, 1, direct));
  const watch = new CommitWatch(pool, () => connect(directUrl, direct));
  const writer = new Writer<Transaction>(() => writingOn(new Session(url, options), clock), {
    ...options,
    onCommit: watch.committed,
  });
  return {
    migrations,
    wasPublic: false,
    read: readsOn(new Statements(pool), clock, Math.max(1, Math.floor(maxReaders / 2))),
    write: (work, accountId, about) => writer.write(work, accountId, about),
    watch: (listener) => watch.watch(listener),
    async check() {
      await inDomain(() => pool.query(`SELECT ${isNotNewer}`, []).catch(explainNewer));
    },
    get waitingWrites() {
      return writer.waiting;
    },
    writeWaitMs: (accountId) => writer.waitMs(accountId),
    pruneSizes,
    async close() {
      await writer.close();
      await watch.close();
      await pool.close();
    },
  };
}

/** @throws Error when the proxy cannot be used, or leads to another database than the one that was migrated */
async function requireSame(proxied: Pool, direct: Pool): Promise<void> {
  const select = `SELECT concat(system_identifier, ' ', oid, ' ', pg_is_in_recovery()) AS place
    FROM pg_control_system(), pg_database WHERE datname = current_database()`;
  try {
    const [one, other] = await Promise.all([proxied, direct].map((pool) => pool.query(select, [], false)));
    if (one?.[0]?.['place'] !== other?.[0]?.['place']) throw new Error('DATABASE_DIRECT_URL leads to another one');
  } catch (error) {
    await proxied.close();
    throw error;
  } finally {
    await direct.close();
  }
}

async function inDomain<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw asDomainError(error);
  }
}

/** Wraps a group of queries for readers: the errors of PostgreSQL become the domain's. */
function translated<Group extends object>(group: Group): Group {
  const entries = Object.entries(group) as [string, (...args: never[]) => unknown][];
  return Object.fromEntries(
    entries.map(([name, method]) => [name, (...args: never[]) => inDomain(() => method(...args))]),
  ) as Group;
}

function readsOn(db: Statements, clock: Clock, reportsAtOnce: number): Reads {
  return {
    accounts: translated(accountReads(db)),
    apiKeys: translated(apiKeyReads(db)),
    signIns: translated(signInReads(db)),
    conversations: translated(conversationReads(db)),
    messages: translated(messageReads(db)),
    readPositions: translated(readPositionReads(db)),
    events: translated(eventReads(db)),
    leads: translated(leadReads(db)),
    idempotencyRecords: translated(idempotencyReads(db)),
    webhooks: translated(webhookReads(db)),
    deliveries: translated(deliveryReads(db)),
    documents: translated(documentReads(db)),
    analytics: translated(analyticsReads(db, reportsAtOnce)),
    search: translated(searchReads(db)),
    rateWindows: translated(rateWindowReads(db, clock)),
  };
}

function writingOn(session: Session, clock: Clock): Writing<Transaction> {
  const db = new Statements(session);
  const touchedAll = () => session.touches.touchedAll();
  const accounts = scoped(accountReads(db), accountWrites(db));
  const apiKeys = scoped(apiKeyReads(db), apiKeyWrites(db, touchedAll));
  const signIns = scoped(signInReads(db), signInWrites(db));
  const texts = textWrites(db);
  const conversations = scoped(conversationReads(db), conversationWrites(db, texts, touchedAll));
  const messages = scoped(messageReads(db), messageWrites(db, texts));
  const readPositions = scoped(readPositionReads(db), readPositionWrites(db));
  const events = scoped(
    eventReads(db),
    eventWrites(db, (accountId) => session.touches.grew(accountId)),
  );
  const leads = scoped(leadReads(db), leadWrites(db));
  const idempotencyRecords = scoped(idempotencyReads(db), idempotencyWrites(db));
  const onDue = (accountId: string, webhookId: string) => session.touches.becameDue(accountId, webhookId);
  const locks = { locks: true };
  const webhooks = scoped(webhookReads(db, locks), webhookWrites(db, onDue));
  const deliveries = scoped(deliveryReads(db, locks), deliveryWrites(db, onDue));
  const documents = scoped(documentReads(db), documentWrites(db));
  const analytics = scoped({}, analyticsWrites(db));
  const search = scoped({}, searchWrites());
  const rateWindows = scoped(rateWindowReads(db, clock), rateWindowWrites(db));
  const transactionFor = (scope: WorkScope): Transaction => ({
    accounts: accounts(scope),
    apiKeys: apiKeys(scope),
    signIns: signIns(scope),
    conversations: conversations(scope),
    messages: messages(scope),
    readPositions: readPositions(scope),
    events: events(scope),
    leads: leads(scope),
    idempotencyRecords: idempotencyRecords(scope),
    webhooks: webhooks(scope),
    deliveries: deliveries(scope),
    documents: documents(scope),
    analytics: analytics(scope),
    search: search(scope),
    rateWindows: rateWindows(scope),
  });
  return { session, transactionFor };
}

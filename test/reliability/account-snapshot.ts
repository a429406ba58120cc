import Database from 'better-sqlite3';
import { type Effect, marks, type TrackedConversation, type Write } from './ledger.ts';

export interface EventRow {
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  readonly conversationId: string | null;
  readonly data: string;
}

interface DeliveryRow {
  readonly key: number;
  readonly eventId: string;
  readonly eventSequence: number;
}

interface TalkRow {
  readonly key: number;
  readonly id: string;
}

/** What an event tells when its conversation was erased. */
export const erased = '{"erased":true}';

/** An account in a file as it is at one moment. It is only read: tidying up after a kill is left to the next server. */
export class AccountSnapshot {
  readonly #database: Database.Database;
  readonly #accountId: string;
  readonly #statements = new Map<string, Database.Statement>();

  constructor(path: string, accountId: string) {
    this.#database = new Database(path, { readonly: true });
    this.#database.exec('BEGIN');
    this.#accountId = accountId;
  }

  close(): void {
    this.#database.close();
  }

  all<Row>(sql: string, values: object = {}): Row[] {
    const statement = this.#statements.get(sql) ?? this.#database.prepare(sql);
    this.#statements.set(sql, statement);
    return statement.all(sql.includes('$') ? { accountId: this.#accountId, ...values } : {}) as Row[];
  }

  count(of: string): number {
    return this.#first<{ count: number }>(`SELECT count(*) AS count FROM ${of}`)?.count ?? 0;
  }

  /** A conversation with its messages, as far as anybody may see it. */
  conversation(id: string): object | undefined {
    const row = this.#first<TalkRow>(
      `SELECT key, id, status, subject, external_id AS externalId, version, message_count AS messageCount, converted
       FROM conversations WHERE account_id = $accountId AND id = $id`,
      { id },
    );
    if (row === undefined) return undefined;
    const { key, ...shown } = row;
    const messages = this.all(
      'SELECT sequence, id, sender, content FROM messages WHERE conversation_key = $key ORDER BY sequence',
      { key },
    );
    return { ...shown, messages };
  }

  /** What is left of a conversation that was erased, unless it still is being erased. */
  remainsOf({ id, leads }: TrackedConversation): unknown[] {
    if (this.#first('SELECT 1 FROM erasing WHERE conversation_id = $id', { id }) !== undefined) return [];
    return [
      ...this.all('SELECT id FROM conversations WHERE id = $id', { id }),
      ...this.all('SELECT id FROM leads WHERE account_id = $accountId AND conversation_id = $id', { id }),
      ...[...leads].flatMap((lead) => this.all('SELECT id FROM leads WHERE id = $lead', { lead })),
      ...this.all(
        `SELECT id, data FROM events
         WHERE account_id = $accountId AND conversation_id = $id AND data <> '${erased}'
           AND type <> 'conversation.deleted'`,
        { id },
      ),
      ...this.all('SELECT idempotency_key FROM kept_results WHERE account_id = $accountId AND conversation_id = $id', {
        id,
      }),
    ];
  }

  /** Events as anybody may see them: of what is being erased they tell nothing any more. */
  eventsAfter(sequence: number): EventRow[] {
    return this.all(
      `SELECT sequence, id, type, conversation_id AS conversationId,
         CASE WHEN type <> 'conversation.deleted' AND conversation_id IN (SELECT conversation_id FROM erasing) THEN '${erased}' ELSE data END AS data
       FROM events
       WHERE account_id = $accountId AND sequence > $sequence ORDER BY sequence`,
      { sequence },
    );
  }

  deliveriesAfter(key: number): DeliveryRow[] {
    return this.all(
      'SELECT key, event_id AS eventId, event_sequence AS eventSequence FROM deliveries WHERE key > $key ORDER BY key',
      { key },
    );
  }

  keptResult(key: string): { readonly result: string | null } | undefined {
    return this.#first('SELECT result FROM kept_results WHERE account_id = $accountId AND idempotency_key = $key', {
      key,
    });
  }

  totals(): object {
    const sql = `SELECT active, pending, closed, leads AS leadsNow, event_sequence AS eventSequence
      FROM account_totals WHERE account_id = $accountId`;
    return this.#first<object>(sql) ?? {};
  }

  /** What analytics have counted, over all time. */
  counters(): Record<string, number> {
    const columns = {
      conversationsStarted: 'conversations_started',
      conversationsClosed: 'conversations_closed',
      conversationsReopened: 'conversations_reopened',
      converted: 'conversations_converted',
      agent: 'agent_messages',
      visitor: 'visitor_messages',
      bot: 'bot_messages',
      leads: 'leads',
      firstResponse: 'first_responses',
      firstResponseMs: 'first_response_ms',
      resolution: 'resolutions',
      resolutionMs: 'resolution_ms',
    };
    const sums = Object.entries(columns).map(([name, column]) => `coalesce(sum(${column}), 0) AS ${name}`);
    const sql = `SELECT ${sums.join()} FROM analytics_counters WHERE account_id = $accountId`;
    return this.#first<Record<string, number>>(sql) ?? {};
  }

  histograms(): { readonly name: string; readonly width: number; readonly counts: Buffer }[] {
    return this.all('SELECT name, width, counts FROM analytics_histograms WHERE account_id = $accountId');
  }

  /** What a write has done, if it has done anything. */
  effectOf(write: Write): Effect | undefined {
    const { number, conversation } = write;
    const id = conversation?.id;
    switch (write.kind) {
      case 'create':
        return this.#created(marks.externalId(number));
      case 'message':
        return this.#first(
          `SELECT messages.id, sequence, messages.created_at AS atMs
           FROM conversations JOIN messages ON conversation_key = conversations.key
           WHERE account_id = $accountId AND conversations.id = $id AND content = $content`,
          { id, content: marks.content(number) },
        );
      case 'lead':
        return this.#first(
          'SELECT id, created_at AS atMs FROM leads WHERE account_id = $accountId AND phone = $phone',
          { phone: marks.phone(number) },
        );
      case 'delete':
        return this.#versionOf(id) === undefined ? { id: id ?? '', atMs: 0 } : undefined;
      default: {
        const now = this.#versionOf(id);
        return now?.version === conversation?.version ? undefined : now;
      }
    }
  }

  #created(externalId: string): Effect | undefined {
    const row = this.#first<Effect & { messageId: string | null }>(
      `SELECT conversations.id, conversations.created_at AS atMs, messages.id AS messageId
       FROM conversations LEFT JOIN messages ON conversation_key = conversations.key AND sequence = 1
       WHERE account_id = $accountId AND external_id = $externalId`,
      { externalId },
    );
    if (row === undefined) return undefined;
    const { messageId, ...effect } = row;
    return messageId === null ? effect : { ...effect, messageId };
  }

  #versionOf(id: string | undefined): Effect | undefined {
    return this.#first(
      'SELECT id, version, updated_at AS atMs FROM conversations WHERE account_id = $accountId AND id = $id',
      { id },
    );
  }

  #first<Row>(sql: string, values: object = {}): Row | undefined {
    return this.all<Row>(sql, values)[0];
  }
}

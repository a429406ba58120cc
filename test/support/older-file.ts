import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { addMigrationFunctions } from '../../src/storage/sqlite/open.ts';
import { temporaryFolder } from './files.ts';

const folder = join(import.meta.dirname, '../../drizzle');

/** All migrations, in their order. */
export const { entries: migrations } = JSON.parse(readFileSync(join(folder, 'meta/_journal.json'), 'utf8')) as {
  entries: { tag: string; when: number }[];
};

/** A file as a version of the program has left it that had so many migrations, with no rows but its own. */
export class OlderFile {
  readonly path = join(temporaryFolder(), 'older.db');
  readonly #database = new Database(this.path);

  constructor(migrationCount: number, newerPath: string) {
    this.#database.pragma('foreign_keys = OFF');
    addMigrationFunctions(this.#database);
    this.#database.exec(
      'CREATE TABLE __drizzle_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, hash text NOT NULL, created_at numeric)',
    );
    for (const { tag, when } of migrations.slice(0, migrationCount)) {
      this.#database.exec(readFileSync(join(folder, `${tag}.sql`), 'utf8'));
      this.#database.prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)').run(tag, when);
    }
    this.#database.prepare('ATTACH ? AS newer').run(newerPath);
  }

  /** Without virtual tables, and what SQLite keeps for them. */
  get tables(): string[] {
    const sql = `SELECT name FROM pragma_table_list
      WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> '__drizzle_migrations'`;
    return this.#database.prepare<[], string>(sql).pluck().all();
  }

  /** The columns that a table has in both files. */
  columnsOf(table: string): string[] {
    const sql = `SELECT name FROM pragma_table_info('${table}', 'main')
      WHERE name IN (SELECT name FROM pragma_table_info('${table}', 'newer'))`;
    return this.#database.prepare<[], string>(sql).pluck().all();
  }

  /** Takes over what the newer file has in a table, as far as both have columns for it. */
  copy(table: string): void {
    const columns = this.columnsOf(table).join();
    this.run(`INSERT OR REPLACE INTO ${table} (${columns}) SELECT ${columns} FROM newer.${table}`);
  }

  run(sql: string): void {
    this.#database.exec(sql);
  }

  close(): void {
    this.#database.close();
  }
}

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { DomainError } from '../../src/domain/errors.ts';
import type { Transaction } from '../../src/domain/storage-port.ts';
import { patient } from '../../src/storage/sqlite/errors.ts';
import { openReader, openWriter, stopBlocking } from '../../src/storage/sqlite/open.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { scoped } from '../../src/storage/sqlite/transaction-scope.ts';
import { Writer, type WriterOptions } from '../../src/storage/sqlite/writer.ts';
import { effort } from '../support/effort.ts';
import { temporaryFolder } from '../support/files.ts';
import { ids, sampleAccount, sampleConversation, startMs, storedAccount } from '../support/samples.ts';
import { leastOf, until } from '../support/wait.ts';

// The writer on a real file, with a transaction small enough to break in every way that SQLite knows.

interface Notes {
  /** Writes a note; each text can be written once. */
  add(text: string): void;
  /** Any statement, to do what no query of the storage would. */
  exec(sql: string): void;
}

/** However slow the machine is just now. */
const inOneGroup: WriterOptions = { maxGroupMs: Number.POSITIVE_INFINITY, minSliceMs: 0 };

function openNotes(options: WriterOptions = {}) {
  const path = join(temporaryFolder(), 'notes.db');
  const statements: string[] = [];
  const tools = { onStatement: (_sql: string): void => {} };
  const connection = openWriter(path, {
    onStatement(sql) {
      statements.push(sql);
      tools.onStatement(sql);
    },
  });
  connection.exec(`CREATE TABLE notes (text TEXT PRIMARY KEY, parent TEXT REFERENCES notes (text)) WITHOUT ROWID`);
  stopBlocking(connection);
  const insert = connection.prepare('INSERT INTO notes (text) VALUES (?)');
  const notes: Notes = {
    add: (text) => void insert.run(text),
    exec: (sql) => void connection.exec(sql),
  };
  const writer = new Writer<Notes>(connection, scoped(notes, connection), options);
  const reader = openReader(path);
  const kept = reader.prepare<[], string>('SELECT text FROM notes ORDER BY text').pluck();
  onTestFinished(async () => {
    await writer.close();
    reader.close();
    connection.close();
  });
  statements.length = 0;
  return Object.assign(tools, {
    path,
    connection,
    writer,
    /** What was run on the writing connection, in order. */
    statements,
    /** What a reader finds. */
    kept: () => kept.all(),
    add: (text: string) => writer.write(async (tx) => tx.add(text)),
  });
}

/** Keeps the event loop busy. */
function spin(durationMs: number): void {
  const until = performance.now() + durationMs;
  while (performance.now() < until);
}

/** Looks in every turn of the event loop, until the test has finished or it is told to stop. */
function onEachTurn(look: () => void): () => void {
  let ticking = setImmediate(function tick() {
    look();
    ticking = setImmediate(tick);
  });
  const stop = (): void => clearImmediate(ticking);
  onTestFinished(stop);
  return stop;
}

/** Another connection with the write lock in its hands. */
function lockedElsewhere(path: string): { release(): void } {
  const other = new Database(path);
  other.exec('BEGIN IMMEDIATE');
  onTestFinished(() => void other.close());
  return { release: () => void other.exec('COMMIT') };
}

function codesOf(results: readonly PromiseSettledResult<unknown>[]): string[] {
  return results.map((result) => {
    if (result.status === 'fulfilled') return 'kept';
    return result.reason instanceof DomainError ? result.reason.code : String(result.reason);
  });
}

const count = (statements: readonly string[], statement: string) =>
  statements.filter((sql) => sql === statement).length;
const unavailable = expect.objectContaining({
  code: 'UNAVAILABLE',
  facts: expect.objectContaining({ retryAfterSeconds: 1 }),
});

describe('a transaction that has ended', () => {
  test('cannot be used: a promise that was not awaited throws and writes nothing', async () => {
    const { writer, kept, add } = openNotes();
    let floating: Promise<unknown> | undefined;
    const leave = writer.write(async (tx) => {
      tx.add('meant');
      floating = (async () => {
        await nextTurn();
        tx.add('floating');
      })();
      floating.catch(() => {});
    });
    await Promise.all([leave, add('neighbour')]);
    await expect(floating).rejects.toThrow(/used after it had ended/);
    expect(kept()).toEqual(['meant', 'neighbour']);
  });

  test('cannot be used by a promise that was not awaited, while the next units of work run', async () => {
    const { writer, kept, add } = openNotes();
    let floating: Promise<unknown> | undefined;
    const leave = writer.write(async (tx) => {
      floating = (async () => {
        for (let hop = 0; hop < 20; hop++) await null;
        tx.add('floating');
      })();
      floating.catch(() => {});
    });
    await Promise.all([leave, ...Array.from({ length: 20 }, (_, index) => add(`neighbour ${index}`))]);
    await expect(floating).rejects.toThrow(/used after it had ended/);
    expect(kept()).toHaveLength(20);
  });

  test('cannot be used after its unit of work has thrown', async () => {
    const { writer, kept } = openNotes();
    let escaped: Notes | undefined;
    const failing = writer.write(async (tx) => {
      escaped = tx;
      throw new Error('on purpose');
    });
    await expect(failing).rejects.toThrow('on purpose');
    expect(() => escaped?.add('late')).toThrow(/used after it had ended/);
    expect(kept()).toEqual([]);
  });

  test('throws in every method of the storage', async () => {
    const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
    onTestFinished(() => storage.close());
    let escaped: Transaction | undefined;
    await storage.write(async (tx) => {
      escaped = tx;
    });
    const methods = Object.values(escaped as Transaction).flatMap((section: object) =>
      Object.getOwnPropertyNames(Object.getPrototypeOf(section))
        .filter((name) => name !== 'constructor')
        .map((name) => () => Reflect.get(section, name).call(section)),
    );
    expect(methods.length).toBeGreaterThan(25);
    for (const method of methods) expect(method).toThrow(/used after it had ended/);
  });
});

describe('a unit of work that awaits something other than its transaction', () => {
  const waits: Record<string, (tools: ReturnType<typeof openNotes>) => Promise<unknown>> = {
    'a timer': () => sleep(1),
    // Were the guard an immediate, this timer would come first.
    'a timer that is due at once': () => {
      const due = sleep(1);
      spin(5);
      return due;
    },
    'an immediate': () => nextTurn(),
    'a tick': () => new Promise<void>((resolve) => process.nextTick(resolve)),
    'a file': () => readFile(import.meta.filename),
    'another write': ({ add }) => add('inner'),
    'nothing that will ever come': () => new Promise(() => {}),
  };

  test.each(Object.keys(waits))(
    'fails with an error and is rolled back, and the others of its group are stored: %s',
    async (name) => {
      const tools = openNotes();
      const { writer, connection, kept, add } = tools;
      let afterwards: unknown;
      const results = await Promise.allSettled([
        add('before'),
        writer.write(async (tx) => {
          tx.add('undone');
          await waits[name]?.(tools);
          try {
            tx.add('afterwards');
          } catch (error) {
            afterwards = error;
          }
        }),
        add('after'),
      ]);
      expect(codesOf(results)).toEqual([
        'kept',
        'Error: A storage work awaited something other than its transaction',
        'kept',
      ]);
      await expect(add('later')).resolves.toBeUndefined();
      const inner = name === 'another write' ? ['inner'] : [];
      expect(kept()).toEqual(['after', 'before', ...inner, 'later']);
      if (!name.startsWith('nothing')) {
        await expect
          .poll(() => afterwards)
          .toMatchObject({ message: expect.stringMatching(/used after it had ended/) });
      }
      expect(kept()).not.toContain('afterwards');
      expect(connection.inTransaction).toBe(false);
    },
  );
});

test('a unit of work that failed for waiting and throws later causes no unhandled rejection', async () => {
  const { writer } = openNotes();
  const unhandled: unknown[] = [];
  const listen = (reason: unknown) => void unhandled.push(reason);
  process.on('unhandledRejection', listen); // it would end the program
  onTestFinished(() => void process.off('unhandledRejection', listen));
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
  const write = writer.write(async (tx) => {
    await nextTurn();
    resume();
    tx.add('late');
  });
  await expect(write).rejects.toThrow(/awaited something other/);
  await resumed;
  await nextTurn();
  expect(unhandled).toEqual([]);
});

describe('units of work that await only their transaction', () => {
  test('finish before the event loop turns, 64 in a row with many calls and Promise.all', async () => {
    const { writer, kept } = openNotes();
    let turned = false;
    let runs = 0;
    const results = await Promise.allSettled(
      Array.from({ length: 64 }, (_, index) =>
        writer.write(async (tx) => {
          runs++;
          // The group's time may run out between two works, but never within one.
          turned = false;
          setImmediate(() => {
            turned = true;
          });
          for (let call = 0; call < 10; call++) await tx.add(`${index} in a row ${call}`);
          await Promise.all(Array.from({ length: 10 }, async (_, call) => await tx.add(`${index} at once ${call}`)));
          expect(turned).toBe(false);
          if (index % 8 === 7) throw new Error('on purpose');
        }),
      ),
    );
    expect(codesOf(results)).toEqual(results.map((_, index) => (index % 8 === 7 ? 'Error: on purpose' : 'kept')));
    expect(kept()).toHaveLength(56 * 20);
    expect(runs, 'none had to be run twice').toBe(64);
  });

  test('that arrive in one turn share one commit, and none of them is acknowledged before it', async () => {
    const { writer, statements } = openNotes(inOneGroup);
    await Promise.all(
      Array.from({ length: 40 }, async (_, index) => {
        await writer.write(async (tx) => tx.add(String(index)));
        statements.push('acknowledged');
      }),
    );
    expect(count(statements, 'BEGIN IMMEDIATE')).toBe(1);
    expect(count(statements, 'COMMIT')).toBe(1);
    expect(statements.indexOf('acknowledged')).toBeGreaterThan(statements.indexOf('COMMIT'));
    expect(count(statements, 'acknowledged')).toBe(40);
  });

  test('that arrive turn by turn while the event loop is busy wait for each other, until they are enough', async () => {
    const { statements, add } = openNotes({ maxHoldMs: Number.POSITIVE_INFINITY });
    const works: Promise<void>[] = [];
    const stop = onEachTurn(() => spin(5));
    onEachTurn(() => void (works.length < 4 && works.push(add(String(works.length)))));
    await until(() => works.length > 0);
    await works[0];
    stop();
    await Promise.all(works);
    expect(works).toHaveLength(4);
    expect(count(statements, 'COMMIT')).toBe(1);
  });

  test('are committed at once in an idle event loop, and after a moment in a busy one, though no others come', async () => {
    const patient = openNotes({ maxHoldMs: Number.POSITIVE_INFINITY });
    await patient.add('alone');
    const usual = openNotes();
    const stop = onEachTurn(() => spin(5));
    await usual.add('alone');
    stop();
    expect([...patient.kept(), ...usual.kept()]).toEqual(['alone', 'alone']);
  });

  test('that fail are rejected only after what they may have read is committed', async () => {
    const { writer, statements, add } = openNotes();
    const failing = writer.write(async () => {
      throw new Error('on purpose');
    });
    await Promise.all([add('kept'), failing.catch(() => statements.push('told'))]);
    expect(statements.indexOf('told')).toBeGreaterThan(statements.indexOf('COMMIT'));
  });

  test('need no savepoint when they are alone: a failing one is rolled back as a whole, and the next is written', async () => {
    const { writer, kept, add, statements, connection } = openNotes();
    await add('before');
    const failing = writer.write(async (tx) => {
      tx.add('undone');
      throw new Error('on purpose');
    });
    await expect(failing).rejects.toThrow('on purpose');
    const waiting = writer.write(async (tx) => {
      tx.add('undone, too');
      await nextTurn();
    });
    await expect(waiting).rejects.toThrow(/awaited something other/);
    await add('after');
    expect(kept()).toEqual(['after', 'before']);
    expect(statements.filter((sql) => /SAVEPOINT|COMMIT|ROLLBACK/.test(sql))).toEqual([
      'COMMIT',
      'ROLLBACK',
      'ROLLBACK',
      'COMMIT',
    ]);
    expect(connection.inTransaction).toBe(false);
  });

  test('run in the order of their arrival', async () => {
    const { writer } = openNotes();
    const order: number[] = [];
    await Promise.all(Array.from({ length: 500 }, (_, index) => writer.write(async () => void order.push(index))));
    expect(order).toEqual(Array.from({ length: 500 }, (_, index) => index));
  });
});

describe('the event loop', () => {
  test('turns between groups, however long the queue, and a slow group is cut short', async () => {
    const slowMs = 1;
    const works = 200;
    const worksOfGroup = async (): Promise<number> => {
      const { writer, statements } = openNotes();
      let turns = 0;
      const stop = onEachTurn(() => void turns++);
      await Promise.all(
        Array.from({ length: works }, (_, index) =>
          writer.write(async (tx) => {
            tx.add(String(index));
            spin(slowMs);
          }),
        ),
      );
      stop();
      const groups = count(statements, 'COMMIT');
      expect(turns).toBeGreaterThanOrEqual(groups - 1);
      return works / groups;
    };
    // No more than 45 works of a millisecond go into a group by its time; by number 128 would.
    expect(await leastOf(worksOfGroup, 45)).toBeLessThan(45);
  });

  test('is not counted as held by a group while other code runs', async () => {
    const durations: number[] = [];
    const { writer } = openNotes({ ...inOneGroup, onGroup: (_, durationMs) => void durations.push(durationMs) });
    const othersMs = 300; // far more than the group takes, also on a busy machine
    onEachTurn(() => {
      spin(othersMs);
    });
    await Promise.all(Array.from({ length: 20 }, (_, index) => writer.write(async (tx) => void tx.add(String(index)))));
    expect(durations.filter((durationMs) => durationMs < othersMs)).toHaveLength(1);
  });

  test('turns within a group, too, and nothing of the group is visible before its commit', async () => {
    const works = 50;
    const worksOfTurn = async (): Promise<number> => {
      const { writer, statements, kept } = openNotes({ ...inOneGroup, minSliceMs: 0.5 });
      const seen: string[][] = [];
      const stop = onEachTurn(() => {
        if (count(statements, 'COMMIT') === 0) seen.push(kept());
      });
      await Promise.all(
        Array.from({ length: works }, (_, index) =>
          writer.write(async (tx) => {
            tx.add(String(index));
            spin(1);
          }),
        ),
      );
      stop();
      expect(count(statements, 'COMMIT')).toBe(1);
      expect(kept()).toHaveLength(works);
      expect(new Set(seen.flat())).toEqual(new Set());
      return works / seen.length;
    };
    // Work by work, unless a turn took longer than a work: then the next slice has as much.
    expect(await leastOf(worksOfTurn, 5)).toBeLessThan(5);
  });

  test('turns while 5,000 quick units of work are written', async () => {
    const { kept, add, statements } = openNotes();
    let turns = 0;
    onEachTurn(() => void turns++);
    await Promise.all(Array.from({ length: 5_000 }, (_, index) => add(String(index))));
    expect(kept()).toHaveLength(5_000);
    expect(count(statements, 'COMMIT')).toBeGreaterThanOrEqual(5_000 / 128);
    expect(turns).toBeGreaterThanOrEqual(count(statements, 'COMMIT') - 1);
  });
});

describe('writers that take turns', () => {
  test('end theirs when a transaction has ended, before anybody learns how, and take it for each', async () => {
    const order: string[] = [];
    const turn = { isAsked: true, take: async () => void order.push('take'), end: () => void order.push('end') };
    const tools = openNotes({ ...inOneGroup, turn });
    const { writer, connection, add } = tools;
    tools.onStatement = (sql) => void order.push(sql);
    const told = () => void order.push('told');
    await Promise.all([add('1').then(told), add('2').then(told)]);
    const steps = order.filter((step) => !/SAVEPOINT|RELEASE|INSERT/.test(step));
    expect(steps).toEqual(['take', 'BEGIN IMMEDIATE', 'COMMIT', 'end', 'told', 'told']);

    order.length = 0;
    const losing = writer.write(async () => void connection.exec('ROLLBACK'));
    await Promise.allSettled([losing, add('3').then(told)]);
    const ended = order.filter((step) => ['take', 'BEGIN IMMEDIATE', 'COMMIT', 'end', 'told'].includes(step));
    expect(ended.slice(0, 3)).toEqual(['take', 'BEGIN IMMEDIATE', 'end']);
    expect(ended.slice(-5)).toEqual(['take', 'BEGIN IMMEDIATE', 'COMMIT', 'end', 'told']);
  });

  test('yield less to the event loop within a group while another one waits', async () => {
    const turnsWhile = async (isAsked: boolean): Promise<number> => {
      const turn = { isAsked, take: async () => {}, end: () => {} };
      const { add, statements } = openNotes({ ...inOneGroup, turn });
      let turns = 0;
      const stop = onEachTurn(() => {
        if (count(statements, 'BEGIN IMMEDIATE') > count(statements, 'COMMIT')) turns++;
      });
      await Promise.all(Array.from({ length: 50 }, (_, index) => add(String(index))));
      stop();
      return turns;
    };
    const share = async (): Promise<number> => (await turnsWhile(true)) / (await turnsWhile(false));
    expect(await leastOf(share, 0.5)).toBeLessThan(0.5);
  });
});

/** Ways in which SQLite ends a transaction by itself, savepoints and all. */
const losses: Record<string, (tx: Notes) => void> = {
  'a constraint that rolls back': (tx) => {
    tx.exec(`INSERT INTO notes (text) VALUES ('twin')`);
    tx.exec(`INSERT OR ROLLBACK INTO notes (text) VALUES ('twin')`);
  },
  'a full disk': (tx) => {
    tx.exec('PRAGMA max_page_count = 1'); // less than it has: not a page more
    for (let index = 0; index < 100; index++) tx.add(`${index} ${'x'.repeat(10_000)}`);
  },
};

describe('a transaction that SQLite has rolled back by itself', () => {
  test.each(Object.keys(losses))(
    'fails the unit of work that caused it, and the others are repeated alone: %s',
    async (loss) => {
      const { writer, connection, statements, kept, add } = openNotes(inOneGroup);
      const runs = { before: 0, after: 0 };
      const own = new DomainError('NOT_FOUND', 'of its own');
      const results = await Promise.allSettled([
        writer.write(async (tx) => {
          runs.before++;
          tx.add('before');
        }),
        writer.write(async (tx) => {
          tx.add('failing');
          throw own;
        }),
        writer.write(async (tx) => {
          tx.add('losing');
          losses[loss]?.(tx);
        }),
        writer.write(async (tx) => {
          runs.after++;
          tx.add('after');
        }),
      ]);
      expect(codesOf(results)).toEqual(['kept', 'NOT_FOUND', 'UNAVAILABLE', 'kept']);
      expect(results[1]).toMatchObject({ reason: own });
      expect(results[2]).toMatchObject({ reason: unavailable });
      expect(kept()).toEqual(['after', 'before']);
      expect(runs).toEqual({ before: 2, after: 1 }); // the one behind had not begun
      expect(count(statements, 'BEGIN IMMEDIATE'), 'the group, then each alone').toBe(1 + 4);
      expect(connection.inTransaction).toBe(false);
      connection.pragma('max_page_count = 1000000');
      await expect(add('later')).resolves.toBeUndefined();
    },
  );

  test('forgets none of them though the process stands still for longer than a group may run', async () => {
    const tools = openNotes();
    const { writer, kept, statements, add } = tools;
    const now = performance.now.bind(performance);
    let stoodStillMs = 0;
    vi.spyOn(performance, 'now').mockImplementation(() => {
      if (count(statements, 'BEGIN IMMEDIATE') > 1) stoodStillMs += 50; // at each look at the clock
      return now() + stoodStillMs;
    });
    onTestFinished(() => void vi.restoreAllMocks());
    const lost = writer.write(async (tx) => losses['a constraint that rolls back']?.(tx));
    await Promise.allSettled([add('before'), lost, add('after')]);
    await add('later');
    expect(kept()).toEqual(['after', 'before', 'later']);
  });

  test('fails those with UNAVAILABLE that cannot be repeated because another process has taken the lock', async () => {
    const tools = openNotes(inOneGroup);
    const { path, writer, kept, add } = tools;
    let lock: ReturnType<typeof lockedElsewhere> | undefined;
    const results = await Promise.allSettled([
      add('before'),
      writer.write(async (tx) => {
        tools.onStatement = (sql) => {
          if (sql === 'BEGIN IMMEDIATE') lock ??= lockedElsewhere(path);
        };
        losses['a constraint that rolls back']?.(tx);
      }),
      add('after'),
    ]);
    expect(codesOf(results)).toEqual(['UNAVAILABLE', 'UNAVAILABLE', 'UNAVAILABLE']);
    lock?.release();
    await add('later');
    expect(kept()).toEqual(['later']);
  });

  test('does not fail a unit of work that succeeds when it is repeated', async () => {
    const { writer, kept } = openNotes(inOneGroup);
    let lost = false;
    const results = await Promise.allSettled([
      writer.write(async (tx) => {
        tx.add('unlucky');
        if (!lost) {
          lost = true;
          tx.exec(`INSERT OR ROLLBACK INTO notes (text) VALUES ('unlucky')`);
        }
        return 'value';
      }),
      writer.write(async (tx) => tx.add('neighbour')),
    ]);
    expect(results[0]).toEqual({ status: 'fulfilled', value: 'value' });
    expect(kept()).toEqual(['neighbour', 'unlucky']);
  });

  test.each(Object.keys(losses))(
    'keeps a unit of work that carries on from writing outside a transaction: %s',
    async (loss) => {
      const { writer, kept, add } = openNotes(inOneGroup);
      const errors: unknown[] = [];
      const carefree = writer.write(async (tx) => {
        const attempt = (step: () => void) => {
          try {
            step();
          } catch (error) {
            errors.push(error);
          }
        };
        attempt(() => losses[loss]?.(tx));
        await null;
        // Each of these would be a transaction of its own, durable at once.
        attempt(() => tx.add('outside'));
        attempt(() => tx.add('outside too'));
        return 'all is well';
      });
      const results = await Promise.allSettled([add('before'), carefree, add('after')]);
      expect(codesOf(results)).toEqual(['kept', 'UNAVAILABLE', 'kept']);
      expect(kept()).toEqual(['after', 'before']);
      expect(errors.at(-1)).toMatchObject({ message: expect.stringMatching(/used after it had ended/) });
    },
  );
});

describe('a COMMIT that fails', () => {
  const orphan = (tx: Notes) => {
    tx.exec('PRAGMA defer_foreign_keys = ON');
    tx.exec(`INSERT INTO notes (text, parent) VALUES ('orphan', 'nobody')`);
  };

  test('fails every unit of work in the group, and nothing of them is stored', async () => {
    const { writer, connection, kept, statements, add } = openNotes(inOneGroup);
    const results = await Promise.allSettled([
      add('before'),
      writer.write(async (tx) => orphan(tx)),
      writer.write(async () => {
        throw new Error('on purpose');
      }),
      add('after'),
    ]);
    expect(codesOf(results)).toEqual(Array(4).fill('UNAVAILABLE'));
    expect(results[0]).toMatchObject({ reason: unavailable });
    expect(results[0]).toMatchObject({
      reason: { cause: expect.objectContaining({ code: 'SQLITE_CONSTRAINT_FOREIGNKEY' }) },
    });
    expect(kept()).toEqual([]);
    expect(count(statements, 'COMMIT')).toBe(1);
    expect(connection.inTransaction).toBe(false);
  });

  test('does not prevent later writes', async () => {
    const { writer, kept, add } = openNotes(inOneGroup);
    await expect(writer.write(async (tx) => orphan(tx))).rejects.toEqual(unavailable);
    await Promise.all([add('one'), add('two')]);
    expect(kept()).toEqual(['one', 'two']);
  });
});

test.each([
  { slices: 'default slices', options: {} },
  { slices: 'a turn of the event loop after each unit of work', options: { minSliceMs: 0 } },
])(
  'whatever goes wrong, everything that was acknowledged is stored and nothing that was refused: $slices',
  async ({ options }) => {
    const { writer, connection, kept } = openNotes(options);
    const deeds = {
      write: async () => {},
      throw: async () => {
        throw new Error('on purpose');
      },
      breakRule: async (tx: Notes) => {
        tx.add('twin');
        tx.add('twin');
      },
      lose: async (tx: Notes) => losses['a constraint that rolls back']?.(tx),
      loseAndGoOn: async (tx: Notes) => {
        try {
          losses['a constraint that rolls back']?.(tx);
        } catch {
          await null;
        }
      },
      wait: async () => void (await nextTurn()),
      orphan: async (tx: Notes) => {
        tx.exec('PRAGMA defer_foreign_keys = ON');
        tx.exec(`INSERT INTO notes (text, parent) VALUES ('orphan', 'nobody')`);
      },
    } satisfies Record<string, (tx: Notes) => Promise<void>>;
    const names = Object.keys(deeds) as (keyof typeof deeds)[];
    let serial = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ deed: fc.constantFrom(...names), waits: fc.nat(9).map((n) => n === 0) }), {
          maxLength: 25,
        }),
        async (works) => {
          const before = new Set(kept());
          const running: Promise<string[]>[] = [];
          for (const { deed, waits } of works) {
            const texts = [`${++serial} first`, `${serial} last`];
            const write = writer.write(async (tx) => {
              tx.add(texts[0] as string);
              await deeds[deed](tx);
              try {
                tx.add(texts[1] as string);
              } catch (error) {
                // A careless work, that takes the loss of its transaction for nothing.
                if (deed !== 'loseAndGoOn') throw error;
              }
              return texts;
            });
            running.push(write.catch(() => []));
            if (waits) await nextTurn();
          }
          const acknowledged = (await Promise.all(running)).flat();
          expect(kept().filter((text) => !before.has(text))).toEqual(acknowledged.sort());
          expect(connection.inTransaction).toBe(false);
        },
      ),
      { numRuns: effort(60, 600) },
    );
  },
);

describe('a lock that another process holds', () => {
  test('is waited for without blocking the event loop, and the write succeeds when it is released', async () => {
    const { path, add, kept } = openNotes();
    const lock = lockedElsewhere(path);
    let done = false;
    const write = add('patient').then(() => {
      done = true;
    });
    // Waiting inside SQLite would block this very thread: these timers would never come to release the lock.
    for (let tick = 0; tick < 20; tick++) {
      await sleep(5);
      expect(done).toBe(false);
    }
    lock.release();
    await write;
    expect(kept()).toEqual(['patient']);
  });

  test('leads to UNAVAILABLE after the busy timeout, and later writes succeed', async () => {
    const { path, add, kept, statements } = openNotes({ busyTimeoutMs: 60 });
    const lock = lockedElsewhere(path);
    const startedMs = performance.now();
    const results = await Promise.allSettled([add('one'), add('two')]);
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(60);
    expect(codesOf(results)).toEqual(['UNAVAILABLE', 'UNAVAILABLE']);
    expect(results[0]).toMatchObject({ reason: unavailable });
    expect(count(statements, 'BEGIN IMMEDIATE'), 'it tried more than once').toBeGreaterThan(1);
    lock.release();
    await add('three');
    expect(kept()).toEqual(['three']);
  });

  test('is waited for by each unit of work for its own busy timeout', async () => {
    const { path, add, kept } = openNotes({ busyTimeoutMs: 2_000 });
    const lock = lockedElsewhere(path);
    const first = add('first');
    await sleep(1_000);
    const second = add('second');
    await expect(first).rejects.toEqual(unavailable);
    lock.release();
    await second;
    expect(kept()).toEqual(['second']);
  });

  test('does not block readers', async () => {
    const { path, kept, add } = openNotes();
    await add('one');
    const lock = lockedElsewhere(path);
    expect(kept()).toEqual(['one']);
    lock.release();
  });

  test('makes a reader that needs it wait by a timer, up to the busy timeout', async () => {
    // In a write-ahead log readers are hardly ever locked out; a rollback journal makes it happen at will.
    const path = join(temporaryFolder(), 'journal.db');
    const other = new Database(path);
    other.exec(`CREATE TABLE notes (text TEXT); INSERT INTO notes VALUES ('one')`);
    const reader = openReader(path);
    other.exec('BEGIN EXCLUSIVE');
    onTestFinished(() => {
      reader.close();
      other.close();
    });
    const all = () => reader.prepare('SELECT text FROM notes').pluck().all();
    await expect(patient({ all }, 30).all()).rejects.toEqual(unavailable);
    const reading = patient({ all }, 5_000).all();
    await sleep(20);
    other.exec('COMMIT');
    expect(await reading).toEqual(['one']);
  });
});

describe('closing', () => {
  test('finishes queued writes and refuses later ones', async () => {
    const { writer, kept, add } = openNotes();
    const settled: number[] = [];
    const waiting = Array.from({ length: 300 }, async (_, index) => {
      await add(String(index));
      settled.push(index);
    });
    const closing = writer.close();
    await expect(add('late')).rejects.toEqual(unavailable);
    await closing;
    expect(settled).toHaveLength(300);
    await Promise.all(waiting);
    expect(kept()).toHaveLength(300);
    await writer.close(); // a second time does no harm
    await expect(add('later still')).rejects.toEqual(unavailable);
  });

  test('waits for a lock of another process as long as queued writes do', async () => {
    const { path, writer, kept, add } = openNotes();
    const lock = lockedElsewhere(path);
    const write = add('patient');
    const closing = writer.close();
    await sleep(20);
    lock.release();
    await Promise.all([write, closing]);
    expect(kept()).toEqual(['patient']);
  });

  test('leaves one file with everything in it', async () => {
    const path = join(temporaryFolder(), 'test.db');
    const storage = openSqliteStorage(path);
    const account = sampleAccount();
    const write = storage.write(async (tx) => tx.accounts.insert(account));
    await storage.close();
    await write;
    expect([existsSync(path), existsSync(`${path}-wal`), existsSync(`${path}-shm`)]).toEqual([true, false, false]);
    const reader = openReader(path);
    expect(reader.prepare('SELECT id FROM accounts').pluck().all()).toEqual([account.id]);
    reader.close();
    await expect(storage.write(async () => {})).rejects.toEqual(unavailable);
    await storage.close();
  });
});

describe('the connections', () => {
  test('write to a write-ahead log, durably at each commit, with foreign keys enforced', () => {
    const { connection } = openNotes();
    expect(connection.pragma('journal_mode', { simple: true })).toBe('wal');
    expect(connection.pragma('synchronous', { simple: true })).toBe(2); // FULL
    expect(connection.pragma('foreign_keys', { simple: true })).toBe(1);
    expect(connection.pragma('busy_timeout', { simple: true })).toBe(0);
  });

  test('refuse a row that refers to a missing one', async () => {
    const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'));
    onTestFinished(() => storage.close());
    const nobody = ids.next('account', startMs);
    await expect(
      storage.write(async (tx) => tx.conversations.insert(nobody, sampleConversation())),
    ).rejects.toMatchObject({ code: 'SQLITE_CONSTRAINT_FOREIGNKEY' });
    expect(await storage.read.conversations.count(nobody, {})).toBe(0);
  });

  test('for reading cannot write', async () => {
    const { path, add } = openNotes();
    await add('one');
    const reader = openReader(path);
    onTestFinished(() => void reader.close());
    expect(() => reader.exec(`INSERT INTO notes (text) VALUES ('two')`)).toThrow(/readonly/);
    expect(() => reader.exec('DELETE FROM notes')).toThrow(/readonly/);
    expect(reader.pragma('busy_timeout', { simple: true })).toBe(0);
  });

  test('report each statement as it runs, when asked to', async () => {
    const statements: string[] = [];
    const storage = openSqliteStorage(join(temporaryFolder(), 'test.db'), {
      onStatement: (sql) => void statements.push(sql),
    });
    onTestFinished(() => storage.close());
    statements.length = 0;
    const { id } = await storedAccount(storage);
    expect(statements.at(0)).toBe('BEGIN IMMEDIATE');
    expect(statements.filter((sql) => !sql.startsWith('PRAGMA')).at(-1)).toBe('COMMIT');
    statements.length = 0;
    await storage.read.accounts.find(id);
    expect(statements.at(-1)).toContain(`= (SELECT '${id}')`);
  });
});

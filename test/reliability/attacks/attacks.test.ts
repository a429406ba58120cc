import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { effort } from '../../support/effort.ts';
import { isOnPostgres, PostgresServer } from '../../support/postgres.ts';
import { type EmptyDatabase, fileDatabase, postgresDatabase } from '../databases.ts';
import { faultsIn } from './bounds.ts';
import { reportOf } from './report.ts';
import { type Attack, attacks, everythingAtOnce } from './table.ts';
import { type Result, Trial } from './trial.ts';

// A real server that one account attacks, while a neighbour asks for simple things. Each attack is a row of the table.
// Those that are named by ATTACKS, a regular expression, are tried alone; with ATTACKS_ON=postgresql on PostgreSQL.

const isLong = effort(false, true);
const repetitions = Number(process.env['ATTACKS_REPETITIONS'] ?? effort(1, 5));
const only = process.env['ATTACKS'];
const isChosen = ({ name, isShort }: Attack): boolean =>
  only === undefined ? isLong || isShort === true : new RegExp(only).test(name);
const chosen = attacks.filter(isChosen);
const smallHeapMiB = 256;

/** On PostgreSQL the machine has the database's work to do, too. */
const isWithDatabase = isOnPostgres || process.env['ATTACKS_ON'] === 'postgresql';

const results: Result[] = [];
let server: PostgresServer | undefined;
let shared: Trial | undefined;

beforeAll(async () => {
  if (isWithDatabase) server = await PostgresServer.start();
  // In the short run they share a server.
  if (!isLong) shared = await Trial.start(newDatabase, { isLong });
});

afterAll(async () => {
  shared?.stop();
  await server?.remove();
  console.log(reportOf(results));
});

async function newDatabase(folder: string): Promise<EmptyDatabase> {
  return server === undefined ? fileDatabase(join(folder, 'test.db')) : await postgresDatabase(server);
}

async function tryAttacks(name: string, attacking: readonly Attack[], maxOldSpaceMiB?: number): Promise<void> {
  const options = { isLong, ...(maxOldSpaceMiB !== undefined && { maxOldSpaceMiB }) };
  const trial = shared ?? (await Trial.start(newDatabase, options));
  try {
    const result = await trial.run(name, attacking, maxOldSpaceMiB === undefined ? repetitions : 1);
    results.push(result);
    if (isLong) console.log(reportOf([result])); // it takes a while until all are done
    expect(trial.isAlive, 'the process lives').toBe(true);
    if (maxOldSpaceMiB !== undefined) return;
    expect(faultsIn(attacking, result, { isStrict: isLong && !isWithDatabase, isWithDatabase })).toEqual([]);
    expect(trial.troubles()).toEqual([]);
  } finally {
    if (trial !== shared) trial.stop();
  }
}

const timeout = isWithDatabase ? 600_000 : effort(60_000, 600_000);

// Beside other tests, the machine itself may keep the neighbour waiting once.
const retry = effort(1, 0);

test.each(chosen)(
  'the neighbour does not notice, and memory stays bounded: $name',
  { timeout, retry },
  async (attack) => {
    await tryAttacks(attack.name, [attack]);
  },
);

const isEverythingChosen = only === undefined || new RegExp(only).test('everything');

test.runIf(isLong)('the neighbour does not notice everything at once, by several accounts', { timeout }, async () => {
  if (isEverythingChosen) await tryAttacks('everything at once', everythingAtOnce);
});

test.runIf(isLong)(`a process with ${smallHeapMiB} MiB of heap lives: everything at once`, { timeout }, async () => {
  const name = `everything at once (${smallHeapMiB} MiB of heap)`;
  if (isEverythingChosen) await tryAttacks(name, everythingAtOnce, smallHeapMiB);
});

if (isLong) {
  test.each(chosen)(`a process with ${smallHeapMiB} MiB of heap lives: $name`, { timeout }, async (attack) => {
    await tryAttacks(`${attack.name} (${smallHeapMiB} MiB of heap)`, [attack], smallHeapMiB);
  });
}

import { type Command, Option } from 'commander';
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '../domain/api-keys.ts';
import { type Caller, scopes } from '../domain/caller.ts';
import { maxPageSize, nextCursor } from '../domain/paging.ts';
import type { World } from '../domain/ports.ts';
import { print, table } from './output.ts';
import { asAccount } from './world.ts';

interface KeyOptions {
  readonly account: string;
  readonly name?: string;
  readonly scopes?: readonly string[];
  readonly expiresAt?: string;
  readonly json?: boolean;
}

const accountOption = () => new Option('--account <id>', 'the account').makeOptionMandatory();

export function addKey(program: Command): void {
  const key = program.command('key').description('Make, list and revoke API keys');

  key
    .command('create')
    .description('Make an API key, whose secret is shown this once')
    .addOption(accountOption())
    .requiredOption('--name <name>', 'what it is for')
    .addOption(new Option('--scopes <scope...>', 'what it may do; by default everything').choices(scopes))
    .option('--expires-at <time>', 'when it stops being valid, in RFC 3339; by default never')
    .option('--json', 'print JSON')
    .action(async (options: KeyOptions) => {
      const { apiKey } = await asAccount(options.account, (world, caller) =>
        createApiKey.execute(world, caller, {
          name: options.name,
          ...(options.scopes === undefined ? {} : { scopes: options.scopes }),
          ...(options.expiresAt === undefined ? {} : { expiresAt: options.expiresAt }),
        }),
      );
      print(
        apiKey,
        options,
        () => `${apiKey.id}  ${apiKey.name}\n\nIts secret, shown this once:\n\n  ${apiKey.secret}\n`,
      );
    });

  key
    .command('list')
    .description('List the API keys of an account, newest first')
    .addOption(accountOption())
    .option('--json', 'print JSON')
    .action(async (options: KeyOptions) => {
      const keys = await asAccount(options.account, allKeys);
      print(keys, options, () =>
        table(
          keys.map((each) => ({ ...each })),
          ['id', 'name', 'prefix', 'scopes', 'lastUsedAt', 'expiresAt', 'revokedAt'],
        ),
      );
    });

  key
    .command('revoke')
    .description('Revoke an API key, at once and for good, on running servers too')
    .argument('<id>', 'the key')
    .addOption(accountOption())
    .option('--json', 'print JSON')
    .action(async (id: string, options: KeyOptions) => {
      await asAccount(options.account, (world, caller) => revokeApiKey.execute(world, caller, { id }));
      print({ revokedApiKeyId: id }, options, () => `Revoked ${id}.`);
    });
}

/** The revoked ones are listed too, so there can be any number. */
async function allKeys(world: World, caller: Caller): Promise<readonly ApiKey[]> {
  const keys: ApiKey[] = [];
  let after: string | null | undefined;
  do {
    const page = await listApiKeys.execute(world, caller, { limit: maxPageSize, ...(after && { after }) });
    keys.push(...page.items);
    after = nextCursor(page);
  } while (after !== null);
  return keys;
}

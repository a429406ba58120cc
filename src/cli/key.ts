import { type Command, Option } from 'commander';
import { type ApiKey, createApiKey, listApiKeys, revokeApiKey } from '../domain/api-keys.ts';
import { type Caller, scopes } from '../domain/caller.ts';
import { maxPageSize, nextCursor } from '../domain/paging.ts';
import type { Ports } from '../domain/ports.ts';
import { OperatorError } from '../server/operator-error.ts';
import { addExamples, keyNotice, print, table } from './output.ts';
import { asAccount, orElse } from './with-ports.ts';

interface KeyOptions {
  readonly account?: string;
  readonly name?: string;
  readonly scopes?: readonly string[];
  readonly expiresAt?: string;
  readonly json?: boolean;
}

const accountOption = () => new Option('--account <id>', 'the id of the account (default: the only one)');

export function addKey(program: Command): void {
  const key = program.command('key').description('Create, list and revoke API keys');

  addExamples(
    key.command('create'),
    'key create --name "the shop\'s server"',
    'key create --account acct_… --name reports --scopes analytics:read --expires-at 2030-01-01T00:00:00Z',
  )
    .description('Create an API key, whose secret is shown only once')
    .addOption(accountOption())
    .requiredOption('--name <name>', 'what the key is for')
    .addOption(new Option('--scopes <scope...>', 'what it may do (default: everything)').choices(scopes))
    .option('--expires-at <time>', 'when it expires, in RFC 3339 (default: never)')
    .option('--json', 'print JSON')
    .action(async (options: KeyOptions) => {
      const { apiKey } = await asAccount(options.account, (ports, caller) =>
        createApiKey.execute(ports, caller, {
          name: options.name,
          ...(options.scopes === undefined ? {} : { scopes: options.scopes }),
          ...(options.expiresAt === undefined ? {} : { expiresAt: options.expiresAt }),
        }),
      );
      print(apiKey, options, () => `${apiKey.id}  ${apiKey.name}\n\n${keyNotice(apiKey.secret)}`);
    });

  addExamples(key.command('list'), 'key list --account acct_…')
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

  addExamples(key.command('revoke'), 'key revoke key_…')
    .description('Revoke an API key, permanently and at once, on running servers too')
    .argument('<id>', 'the id of the key')
    .addOption(accountOption())
    .option('--json', 'print JSON')
    .action(async (id: string, options: KeyOptions) => {
      await asAccount(options.account, (ports, caller) =>
        orElse(
          revokeApiKey.execute(ports, caller, { id }),
          new OperatorError('There is no such API key: `key list` shows those that there are.'),
        ),
      );
      print({ revokedApiKeyId: id }, options, () => `Revoked ${id}.`);
    });
}

/** All pages: revoked keys are listed too, so there can be any number. */
async function allKeys(ports: Ports, caller: Caller): Promise<readonly ApiKey[]> {
  const keys: ApiKey[] = [];
  let after: string | null | undefined;
  do {
    const page = await listApiKeys.execute(ports, caller, {
      limit: maxPageSize,
      total: 'none',
      ...(after && { after }),
    });
    keys.push(...page.items);
    after = nextCursor(page);
  } while (after !== null);
  return keys;
}

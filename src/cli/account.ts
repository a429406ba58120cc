import { type Command, Option } from 'commander';
import { createAccount, limitOf, plans, updateAccount } from '../domain/accounts.ts';
import { print, table } from './output.ts';
import { withWorld } from './world.ts';

interface AccountOptions {
  readonly name?: string;
  readonly plan?: string;
  readonly requestsPerHour?: string;
  readonly json?: boolean;
}

export function addAccount(program: Command): void {
  const account = program.command('account').description('Make, list and change accounts');

  account
    .command('create')
    .description('Make an account and its first API key, whose secret is shown this once')
    .requiredOption('--name <name>', 'what to call it')
    .addOption(new Option('--plan <plan>', 'what it has booked').choices(plans).makeOptionMandatory())
    .option('--requests-per-hour <number>', 'a limit of its own in place of its plan’s')
    .option('--json', 'print JSON')
    .action(async (options: AccountOptions) => {
      const created = await withWorld((world) => createAccount(world, inputOf(options)), { mayBegin: true });
      print(
        created,
        options,
        () =>
          `${created.account.id}  ${created.account.name}\n\nIts API key, shown this once:\n\n  ${created.apiKey.secret}\n`,
      );
    });

  account
    .command('list')
    .description('List the accounts')
    .option('--json', 'print JSON')
    .action(async (options: AccountOptions) => {
      const accounts = await withWorld(async ({ storage }) => await storage.read.accounts.list());
      print(accounts, options, () =>
        table(
          accounts.map((each) => ({ ...each, limit: limitOf(each) })),
          ['id', 'name', 'plan', 'limit', 'createdAt'],
        ),
      );
    });

  account
    .command('update')
    .description('Change an account')
    .argument('<id>', 'the account')
    .option('--name <name>', 'what to call it')
    .addOption(new Option('--plan <plan>', 'what it has booked').choices(plans))
    .option('--requests-per-hour <number>', 'a limit of its own; `plan` for the plan’s')
    .option('--json', 'print JSON')
    .action(async (id: string, options: AccountOptions) => {
      const changed = await withWorld((world) => updateAccount(world, id, inputOf(options)));
      print(changed, options, () => table([{ ...changed, limit: limitOf(changed) }], ['id', 'name', 'plan', 'limit']));
    });
}

/** The options in the domain's words: what they may be is its rule. */
function inputOf({ name, plan, requestsPerHour }: AccountOptions): object {
  return {
    ...(name === undefined ? {} : { name }),
    ...(plan === undefined ? {} : { plan }),
    ...(requestsPerHour === undefined
      ? {}
      : {
          requestsPerHour:
            requestsPerHour === 'plan'
              ? null
              : /^-?\d{1,15}$/.test(requestsPerHour)
                ? Number(requestsPerHour)
                : requestsPerHour,
        }),
  };
}

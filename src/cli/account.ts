import { type Command, Option } from 'commander';
import { createAccount, limitOf, listAccounts, plans, updateAccount } from '../domain/accounts.ts';
import { maxOrigins } from '../domain/origins.ts';
import { addExamples, keyNotice, print, table } from './output.ts';
import { noSuchAccount, orElse, withPorts } from './with-ports.ts';

interface AccountOptions {
  readonly name?: string;
  readonly plan?: string;
  readonly requestsPerHour?: string;
  readonly origins?: string;
  readonly json?: boolean;
}

export function addAccount(program: Command): void {
  const account = program.command('account').description('Create, list and update accounts');

  addExamples(
    account.command('create'),
    'account create --name "Acme Support" --plan pro',
    'account create --name Trial --plan trial --requests-per-hour 50 --json',
  )
    .description('Create an account and its first API key, whose secret is shown only once')
    .requiredOption('--name <name>', 'the name of the account')
    .addOption(new Option('--plan <plan>', 'the plan, which sets the rate limit').choices(plans).makeOptionMandatory())
    .option('--requests-per-hour <number>', 'a rate limit that overrides the plan’s')
    .option('--json', 'print JSON')
    .action(async (options: AccountOptions) => {
      const created = await withPorts((ports) => createAccount(ports, inputOf(options)), { mayCreate: true });
      const { account, apiKey } = created;
      print(created, options, () => `${account.id}  ${account.name}\n\n${keyNotice(apiKey.secret)}`);
    });

  addExamples(account.command('list'), 'account list')
    .description('List all accounts')
    .option('--json', 'print JSON')
    .action(async (options: AccountOptions) => {
      const accounts = await withPorts(listAccounts);
      print(accounts, options, () =>
        table(
          accounts.map((each) => ({ ...each, limit: limitOf(each) })),
          ['id', 'name', 'plan', 'limit', 'createdAt'],
        ),
      );
    });

  addExamples(
    account.command('update'),
    'account update acct_… --plan business --requests-per-hour plan',
    'account update acct_… --origins https://shop.example,https://www.shop.example',
  )
    .description('Update an account')
    .argument('<id>', 'the id of the account')
    .option('--name <name>', 'a new name')
    .addOption(new Option('--plan <plan>', 'another plan').choices(plans))
    .option('--requests-per-hour <number>', 'a rate limit that overrides the plan’s; `plan` removes it')
    .option(
      '--origins <list>',
      `the origins of the pages that may call with its tokens, such as https://shop.example, separated by commas; at most ${maxOrigins}, and '' for none`,
    )
    .option('--json', 'print JSON')
    .action(async (id: string, options: AccountOptions) => {
      const changed = await orElse(
        withPorts((ports) => updateAccount(ports, id, inputOf(options))),
        noSuchAccount(),
      );
      print(changed, options, () =>
        table(
          [{ ...changed, limit: limitOf(changed), origins: changed.origins.join(' ') || 'none' }],
          ['id', 'name', 'plan', 'limit', 'origins'],
        ),
      );
    });
}

/** Maps the options to the operation's input. The domain validates them: an odd number is passed on as text. */
function inputOf({ name, plan, requestsPerHour, origins }: AccountOptions): object {
  return {
    ...(origins === undefined ? {} : { origins: origins === '' ? [] : origins.split(',').map((each) => each.trim()) }),
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

import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { maxAtOnce, registerDocuments } from '../domain/documents.ts';
import { DomainError, worded } from '../domain/errors.ts';
import { OperatorError } from '../server/operator-error.ts';
import { reportingFileErrors } from './files.ts';
import { addExamples, print } from './output.ts';
import { asAccount } from './with-ports.ts';

interface PushOptions {
  readonly account?: string;
  readonly json?: boolean;
}

interface ManifestEntry {
  readonly id: unknown;
  readonly text: unknown;
}

/** So many faults are printed at most. */
const maxFaults = 10;

export function addDocuments(program: Command): void {
  const documents = program.command('documents').description('Register the GraphQL documents of front-ends');

  addExamples(documents.command('push'), 'documents push persisted-documents.json --account acct_…')
    .description('Register the documents of a manifest of GraphQL Code Generator, Relay, gql.tada or Apollo')
    .argument('<file>', 'the manifest')
    .option('--account <id>', 'the id of the account (default: the only one)')
    .option('--json', 'print JSON')
    .action(async (file: string, options: PushOptions) => {
      const entries = entriesOf(await reportingFileErrors(() => readFile(file, 'utf8')));
      if (entries === undefined) {
        throw new OperatorError(
          `${file} is no manifest: the JSON of GraphQL Code Generator, Relay, gql.tada or Apollo was expected.`,
        );
      }
      await refuseInvalid(entries);
      await asAccount(options.account, async (ports, caller) => {
        for (let from = 0; from < entries.length; from += maxAtOnce) {
          const some = entries.slice(from, from + maxAtOnce);
          await naming(some, () => registerDocuments.execute(ports, caller, { documents: some }));
        }
      });
      const count = entries.length;
      print({ documents: count }, options, () => `Registered ${count} ${count === 1 ? 'document' : 'documents'}.`);
    });
}

/** What a manifest holds, whichever tool wrote it; undefined for anything else. */
function entriesOf(json: string): readonly ManifestEntry[] | undefined {
  const manifest = parsed(json);
  if (!isObject(manifest)) return undefined;
  // Apollo's, whose `operations` are also seen by their ids.
  if (manifest['format'] === 'apollo-persisted-query-manifest') {
    const { operations } = manifest;
    if (Array.isArray(operations)) return operations.map((each) => entryOf(each?.id, each));
    return isObject(operations) ? Object.entries(operations).map(([id, each]) => entryOf(id, each)) : undefined;
  }
  const entries = Object.entries(manifest).map(([id, text]) => ({ id, text }));
  return entries.every(({ text }) => typeof text === 'string') ? entries : undefined;
}

function entryOf(id: unknown, operation: unknown): ManifestEntry {
  return { id, text: isObject(operation) ? operation['body'] : undefined };
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json.replace(/^\uFEFF/, '')); // programs on Windows begin a file with a byte order mark
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The service would answer a document that is not valid with its faults, each time: here they are found before.
 * @throws OperatorError
 */
async function refuseInvalid(entries: readonly ManifestEntry[]): Promise<void> {
  const { documentFaults } = await import('../graphql/document-faults.ts'); // no other command needs the schema
  const faults = entries.flatMap(({ id, text }) =>
    typeof text === 'string' ? documentFaults(text).map((fault) => `${nameOf(id)}: ${fault}`) : [],
  );
  if (faults.length > 0) throw new OperatorError(listed(faults));
}

/**
 * Names the documents at fault by their ids.
 * @throws OperatorError instead of VALIDATION_FAILED
 */
async function naming(entries: readonly ManifestEntry[], work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const faults = error instanceof DomainError ? error.facts.faults : undefined;
    if (faults === undefined) throw error;
    const sentences = faults.map(({ path, detail }) => {
      const [, index = 0, field = ''] = path;
      return `${nameOf(entries[Number(index)]?.id)}: \`${String(field)}\` ${worded(detail)}.`;
    });
    throw new OperatorError(listed(sentences));
  }
}

function nameOf(id: unknown): string {
  return `The document ${JSON.stringify(id) ?? 'without an id'}`;
}

function listed(faults: readonly string[]): string {
  const others = faults.length - maxFaults;
  return [...faults.slice(0, maxFaults), ...(others > 0 ? [`There are ${others} more faults.`] : [])].join('\n');
}

import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import plugin from '@graphql-eslint/eslint-plugin';
import { ESLint, type Linter } from 'eslint';
import { type ASTNode, parse } from 'graphql';

// Prints as JSON what the rules for schemas find in a file, by rule, type and field.

const prefix = '@graphql-eslint/';

const options: Readonly<Record<string, object>> = {
  [`${prefix}strict-id-in-types`]: {
    exceptions: {
      // Made for one answer, so that there is nothing to find again.
      suffixes: ['Payload', 'Connection', 'Edge'],
      types: [
        // Results of counting or searching, and what a page, a plan or a credential is at the moment.
        ...['Analytics', 'AnalyticsFigures', 'AnalyticsPeriod', 'DurationFigures', 'MessageCounts'],
        ...['OpenConversations', 'SearchResult', 'ExcerptPart', 'PageInfo', 'RateLimit', 'Token'],
        // Parts of a conversation or a message. Ids in them are the client's own, by which caches must not merge.
        ...['Assignee', 'MessageAuthor', 'ReadPosition', 'Visitor'],
        // What was, which must not replace what is in caches that merge by `id`.
        ...['ConversationChange', 'ConversationSnapshot'],
      ],
    },
  },
  [`${prefix}relay-edge-types`]: {
    withEdgeSuffix: true,
    shouldImplementNode: true,
    // Connections have `nodes` beside `edges`, and what is short and bounded (tags, scopes, a series) is a plain list.
    listTypeCanWrapOnlyEdgeType: false,
  },
  // Only messages are also read from their end: `last` and `before` of other lists would be another order of them.
  [`${prefix}relay-arguments`]: { includeBoth: false },
};

/** Findings that are meant, and why. */
const exceptions: ReadonlyMap<string, string> = new Map([
  ['no-unreachable-types ErrorCode', 'It is the type of `extensions.code`, which no field can have.'],
  ['no-typename-prefix Token.token', 'REST and the client have this name for it, too.'],
  ['relay-edge-types AttemptEdge', 'An attempt is found with its delivery only, so `node` does not know it.'],
  ['relay-edge-types SearchResultEdge', 'A result is no object of its own: it shows a message or a conversation.'],
  ['relay-edge-types TrustedDocumentEdge', 'Its id was made by a tool of the client, and does not name its type.'],
]);

const [path = ''] = process.argv.slice(2);
const text = readFileSync(path, 'utf8');
const { definitions } = parse(text);

/** The definition that a line is of. */
function at(line: number, nodes: readonly ASTNode[] = definitions): string {
  const node = nodes.find(({ loc }) => loc && loc.startToken.line <= line && line <= loc.endToken.line);
  if (node === undefined || !('name' in node) || node.name === undefined) return '';
  const inside = 'fields' in node && node.fields ? at(line, node.fields) : '';
  return inside === '' ? node.name.value : `${node.name.value}.${inside}`;
}

const { rules: recommended } = plugin.configs['flat/schema-recommended'];
const { rules: relay } = plugin.configs['flat/schema-relay'];
const rules = Object.entries<Linter.RuleEntry>({ ...recommended, ...relay }).map(
  ([rule, entry]): [string, Linter.RuleEntry] => [rule, options[rule] === undefined ? entry : ['error', options[rule]]],
);
const eslint = new ESLint({
  cwd: dirname(path),
  overrideConfigFile: true, // there is no file of settings
  overrideConfig: {
    files: ['**/*.graphql'],
    languageOptions: { parser: plugin.parser, parserOptions: { graphQLConfig: { schema: path } } },
    // Its types are those of an ESLint before the present one.
    plugins: { '@graphql-eslint': plugin as unknown as ESLint.Plugin },
    rules: Object.fromEntries(rules),
  },
});
const [result] = await eslint.lintFiles([path]);
const found = (result?.messages ?? []).map(({ ruleId, line, message }) => ({
  where: `${ruleId?.slice(prefix.length)} ${at(line)}`,
  message,
}));
const places = new Set(found.map(({ where }) => where));
console.log(
  JSON.stringify({
    found: found.filter(({ where }) => !exceptions.has(where)),
    needless: [...exceptions.keys()].filter((where) => !places.has(where)),
  }),
);

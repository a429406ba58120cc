import fc from 'fast-check';
import {
  type GraphQLNamedOutputType,
  type GraphQLObjectType,
  getNamedType,
  isAbstractType,
  isLeafType,
  isNonNullType,
  parse,
} from 'graphql';
import { maxTokens } from '../../src/graphql/limits.ts';
import { schema } from '../../src/graphql/schema.ts';
import type { TestAccount } from './server.ts';

/** Makes something of each kind to ask for. @returns the ids of the last ones */
export async function fillForQueries(
  client: TestAccount,
): Promise<{ conversation: string; message: string; lead: string }> {
  const ids = { conversation: '', message: '' };
  for (const subject of ['Parcel', null, 'Ünïcödé "quoted" \u2028']) {
    const message = { content: `About ${subject}`, sender: 'visitor', author: { name: 'Ada' } };
    const { body } = await client.rest('POST', '/conversations', {
      body: { subject, message, metadata: { order: 7 }, visitor: { name: 'Ada' } },
    });
    ids.conversation = body.id;
    ids.message = body.messages[0].id;
    await client.rest('POST', `/conversations/${body.id}/messages`, { body: { content: 'Yes', sender: 'agent' } });
  }
  const lead = await client.rest('POST', '/leads', {
    body: { conversationId: ids.conversation, email: 'a@b.example' },
  });
  return { ...ids, lead: lead.body.id };
}

/** A random valid query, no longer than allowed: aliases, fragments, directives on variables, abstract types, unknown ids. */
export function randomQuery(
  ids: Readonly<Record<string, string>>,
): fc.Arbitrary<{ query: string; variables: { no: boolean } }> {
  const known = [...Object.values(ids), 'conv_x'];
  const random = fc.record({
    query: selection(schema.getQueryType() as GraphQLObjectType, { depth: 4, known, prefix: '' }).map(
      (selected) =>
        // Each variable has to be used.
        `query ($yes: Boolean = true, $no: Boolean!) { ... ${selected} y: __typename @include(if: $yes) n: __typename @skip(if: $no) }`,
    ),
    variables: fc.record({ no: fc.boolean() }),
  });
  return random.filter(({ query }) => Number(parse(query).tokenCount) <= maxTokens);
}

interface Place {
  /** How many levels there may be below it. */
  readonly depth: number;
  /** Ids to ask for. */
  readonly known: readonly string[];
  /** Of all keys, so that those of several types in one selection differ. */
  readonly prefix: string;
}

const directives = ['', '', '', '', '@include(if: $yes)', '@skip(if: $no)', '@skip(if: true)', '@include(if: $no)'];

function selection(type: GraphQLObjectType, place: Place): fc.Arbitrary<string> {
  const fields = Object.values(type.getFields()).flatMap((field) => {
    const fieldType = getNamedType(field.type);
    const required = field.args.filter(({ type, defaultValue }) => isNonNullType(type) && defaultValue === undefined);
    if (field.name === 'rateLimit' || (place.depth === 0 && !isLeafType(fieldType))) return [];
    if (required.some(({ name }) => name !== 'id' && name !== 'ids')) return [];
    return [fc.tuple(fc.constant(field.name), selectionBelow(field.name, required[0]?.name, fieldType, place))];
  });
  if (fields.length === 0) return fc.constant('{ __typename }');
  const chosen = fc.tuple(
    fc.oneof(...fields),
    fc.constantFrom('', 'a', 'b', 'c'),
    fc.constantFrom(...directives),
    fc.constantFrom('', '', '...', `... on ${type.name}`),
  );
  return fc.array(chosen, { minLength: 1, maxLength: 4 }).map((all) => {
    // Two fields of one key must not differ.
    const byKey = new Map(
      all.map(([[name, { given, below }], alias, directive, fragment]) => {
        const key = `${place.prefix}${alias || name}`;
        const field = `${key}: ${name}${given} ${directive} ${below}`;
        return [key, fragment === '' ? field : `${fragment} { ${field} }`];
      }),
    );
    return `{ ${[...byKey.values()].join(' ')} __typename }`;
  });
}

function selectionBelow(
  name: string,
  required: string | undefined,
  type: GraphQLNamedOutputType,
  place: Place,
): fc.Arbitrary<{ name: string; given: string; below: string }> {
  const given = fc
    .shuffledSubarray([...place.known], { minLength: 1, maxLength: 3 })
    .map((ids) =>
      required === undefined ? '' : `(${required}: ${JSON.stringify(required === 'ids' ? ids : ids[0])})`,
    );
  return fc.record({ name: fc.constant(name), given, below: below(type, { ...place, depth: place.depth - 1 }) });
}

function below(type: GraphQLNamedOutputType, place: Place): fc.Arbitrary<string> {
  if (isLeafType(type)) return fc.constant('');
  if (!isAbstractType(type)) return selection(type as GraphQLObjectType, { ...place, prefix: '' });
  const members = schema
    .getPossibleTypes(type)
    .map((member) =>
      selection(member, { ...place, prefix: `${member.name}_` }).map((selected) => `... on ${member.name} ${selected}`),
    );
  return fc.tuple(...members).map((all) => `{ __typename ${all.join(' ')} }`);
}

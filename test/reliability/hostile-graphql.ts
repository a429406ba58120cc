import { createHash } from 'node:crypto';
import {
  type GraphQLArgument,
  type GraphQLInputType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isListType,
  isNonNullType,
  isObjectType,
  isRequiredInputField,
} from 'graphql';
import type { Random } from '../support/random.ts';
import type { Names } from './hostile-rest.ts';
import { oddBytes, oddJson, oddTexts } from './odd-values.ts';

/** Makes GraphQL requests of a schema, and spoils them. */
export class GraphQLAttacks {
  readonly #schema: GraphQLSchema;
  readonly #names: Names;

  constructor(schema: GraphQLSchema, names: Names) {
    this.#schema = schema;
    this.#names = names;
  }

  /** A body for `POST /graphql`. */
  body(random: Random): string | Uint8Array {
    const kind = random.next();
    if (kind < 0.02) return random.pick(oddBytes);
    if (kind < 0.05) return random.pick(oddJson);
    if (kind < 0.12) return `[${Array.from({ length: random.below(13) }, () => this.#request(random))}]`;
    const request = this.#request(random);
    return kind < 0.14 ? request.slice(0, random.below(request.length)) : request;
  }

  /** The payload of a `subscribe` message. */
  #request(random: Random): string {
    const kind = random.next();
    const query =
      kind < 0.6 ? this.document(random) : kind < 0.75 ? spoil(random, this.document(random)) : bomb(random);
    const members = [`"query":${JSON.stringify(query)}`];
    if (random.chance(0.3)) members.push(`"variables":${this.#variables(random)}`);
    if (random.chance(0.1)) members.push(`"operationName":${random.pick(['"A"', 'null', '""', '1', '"__proto__"'])}`);
    if (random.chance(0.05)) members.push(`"extensions":${random.pick(oddJson)}`);
    if (random.chance(0.05)) members.push(`"extensions":{"persistedQuery":${this.#persistedQuery(random, query)}}`);
    if (random.chance(0.03)) members.push(`"documentId":${random.pick(oddJson)}`);
    if (random.chance(0.03)) members.push(`${JSON.stringify(random.pick(oddTexts))}:${random.pick(oddJson)}`);
    if (random.chance(0.03)) members.shift();
    return `{${members.join()}}`;
  }

  /** An operation with all that it needs, of whatever there is. */
  document(random: Random): string {
    const operation = random.pick(['query', 'query', 'query', 'mutation', 'mutation', 'subscription'] as const);
    const root = { query: 'Query', mutation: 'Mutation', subscription: 'Subscription' }[operation];
    const type = this.#schema.getType(root);
    if (!isObjectType(type)) return '{ __typename }';
    return `${operation}${random.chance(0.3) ? ' A($v: ID, $n: Int)' : ''} ${this.#selection(random, type, random.below(9))}`;
  }

  #persistedQuery(random: Random, query: string): string {
    if (random.chance(0.2)) return random.pick(oddJson);
    const hash = random.chance(0.5) ? createHash('sha256').update(query).digest('hex') : random.pick(oddTexts);
    return `{"version":${random.pick(['1', '1', '1', '2', '"1"'])},"sha256Hash":${JSON.stringify(hash)}}`;
  }

  #variables(random: Random): string {
    if (random.chance(0.05)) return `{${Array.from({ length: 3_000 }, (_, index) => `"v${index}":${index}`).join()}}`;
    return random.chance(0.5) ? `{"v":${random.pick(oddJson)},"n":${random.pick(oddJson)}}` : random.pick(oddJson);
  }

  #selection(random: Random, type: GraphQLOutputType, depth: number): string {
    const named = getNamedType(type);
    if (!isCompositeType(named)) return '';
    const fields = isObjectType(named) || isInterfaceType(named) ? Object.values(named.getFields()) : [];
    const chosen = Array.from({ length: 1 + random.below(3) }, () => {
      const field = fields.length === 0 || random.chance(0.1) ? undefined : random.pick(fields);
      if (field === undefined || (depth <= 0 && isCompositeType(getNamedType(field.type)))) return '__typename';
      const alias = random.chance(0.2) ? `a${random.below(1_000)}: ` : '';
      const directive = random.chance(0.04)
        ? random.pick([' @skip(if: true)', ' @include(if: $v)', ' @no', ' @defer'])
        : '';
      return `${alias}${field.name}${this.#arguments(random, field.args)}${directive} ${this.#selection(random, field.type, depth - 1)}`;
    });
    return `{ ${chosen.join(' ')} }`;
  }

  #arguments(random: Random, args: readonly GraphQLArgument[]): string {
    const given = args.flatMap(({ name, type }) => {
      if (!isNonNullType(type) && random.chance(0.6)) return [];
      return [`${name}: ${random.chance(0.05) ? random.pick(['$v', '$n', '$no']) : this.#value(random, type)}`];
    });
    if (random.chance(0.02)) given.push('unknown: 1');
    return given.length === 0 ? '' : `(${given.join(', ')})`;
  }

  #value(random: Random, type: GraphQLInputType): string {
    if (random.chance(0.04))
      return random.pick(['null', '[]', '{}', '1e999', '-1', '"\\u0000"', '"""\n"""', 'TRUE', '[[1]]']);
    if (isNonNullType(type)) return this.#value(random, type.ofType);
    if (isListType(type)) return `[${Array.from({ length: random.below(4) }, () => this.#value(random, type.ofType))}]`;
    if (isEnumType(type)) return random.pick(type.getValues()).name;
    if (isInputObjectType(type)) {
      const fields = Object.values(type.getFields()).filter(
        (field) => isRequiredInputField(field) || random.chance(0.3),
      );
      return `{${fields.map((field) => `${field.name}: ${this.#value(random, field.type)}`).join(', ')}}`;
    }
    switch (getNamedType(type).name) {
      case 'Int':
        return random.pick(['0', '1', '3', '20', '100', '101', '-5', '2147483647', '2147483648']);
      case 'Float':
        return random.pick(['0.5', '-1e9', '1e400']);
      case 'Boolean':
        return random.pick(['true', 'false']);
      case 'DateTime':
        return random.pick(['"2026-11-21T06:12:00Z"', '"2031-01-01T00:00:00Z"', '"soon"']);
      case 'Metadata':
        return random.pick(['{a: 1}', '{a: {b: 1}}', '{}', '[1]']);
      default:
        return JSON.stringify(this.#text(random).toWellFormed());
    }
  }

  #text(random: Random): string {
    const kind = random.next();
    const { own, foreign } = this.#names;
    if (kind < 0.4) return random.pick(own);
    if (kind < 0.6) return random.pick(foreign);
    return kind < 0.8 ? random.pick(['Parcel', 'ada@example.com', 'https://hooks.invalid/a']) : random.pick(oddTexts);
  }
}

/** Puts something in, takes something out, or repeats something. */
function spoil(random: Random, text: string): string {
  const at = random.below(text.length);
  const to = Math.min(text.length, at + random.below(20));
  return random.pick([
    () =>
      text.slice(0, at) +
      random.pick(['{', '}', '(', '$', '...', '"', '"""', '\0', '#', '\ufeff', '@', '📦']) +
      text.slice(at),
    () => text.slice(0, at) + text.slice(to),
    () => text.slice(0, to) + text.slice(at),
    () => text + text,
  ])();
}

/** Documents that are small to send and large to work on. */
export function bomb(random: Random): string {
  const size = random.pick([10, 100, 600]);
  const many = (make: (index: number) => string): string =>
    Array.from({ length: size }, (_, index) => make(index)).join(' ');
  return random.pick([
    () =>
      `{ ${'conversations { nodes { messages { nodes { conversation { '.repeat(size / 5)}id${' } } } } }'.repeat(size / 5)} }`,
    () => `{ ${many((index) => `a${index}: account { id }`)} }`,
    () => `{ ${many((index) => `a${index}: conversations(first: 100) { nodes { id subject } }`)} }`,
    () => `{ ${many(() => 'account { id name }')} }`,
    () => `{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }`,
    () => `{ ...A } fragment A on Query { ...A account { id } }`,
    () => `{ ...F0 } ${many((index) => `fragment F${index} on Query { ...F${index + 1} ...F${index + 1} }`)}`,
    () => `{ ${many((index) => `...F${index}`)} } ${many((index) => `fragment F${index} on Query { account { id } }`)}`,
    () => `{ account { ${many((index) => `x${index}: name`)} } account { ${many((index) => `x${index}: id`)} } }`,
    () =>
      `query (${many((index) => `$v${index}: ID`)}) { ${many((index) => `c${index}: conversation(id: $v${index}) { id }`)} }`,
    () => `{ account { id ${many(() => '@skip(if: false)')} } }`,
    () => `{ node(id: "${'x'.repeat(size * 100)}") { id } }`,
    () => `{ nodes(ids: [${many((index) => `"conv_${index}"`)}]) { id } }`,
    () =>
      `mutation { ${many((index) => `c${index}: closeConversation(input: {id: "conv_${index}"}) { eventCursor }`)} }`,
    () => `{ __schema { types { ${'fields { type { '.repeat(size / 10)}name${' } }'.repeat(size / 10)} } } }`,
    () =>
      `{ analytics(interval: HOUR) { series { start } } ${many((index) => `a${index}: analytics { totals { leads } }`)} }`,
    () => `query A { account { id } } ${many((index) => `query Q${index} { account { id } }`)}`,
    () => '{'.repeat(size * 3),
    () => `{ conversation(id: ${'['.repeat(size)}${']'.repeat(size)}) { id } }`,
    () => `subscription { events { id } conversationStarted { id } }`,
    () => `{ account { id } } # ${'x'.repeat(size * 100)}`,
  ])();
}

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
import { type Dice, oddBytes, oddJson, oddTexts } from './dice.ts';
import type { Names } from './hostile-rest.ts';

/** Makes GraphQL requests of a schema, and spoils them. */
export class GraphQLAttacks {
  readonly #schema: GraphQLSchema;
  readonly #names: Names;

  constructor(schema: GraphQLSchema, names: Names) {
    this.#schema = schema;
    this.#names = names;
  }

  /** A body for `POST /graphql`. */
  body(dice: Dice): string | Uint8Array {
    const kind = dice.next();
    if (kind < 0.02) return dice.pick(oddBytes);
    if (kind < 0.05) return dice.pick(oddJson);
    if (kind < 0.12) return `[${Array.from({ length: dice.below(13) }, () => this.#request(dice))}]`;
    const request = this.#request(dice);
    return kind < 0.14 ? request.slice(0, dice.below(request.length)) : request;
  }

  /** The payload of a `subscribe` message. */
  #request(dice: Dice): string {
    const kind = dice.next();
    const query = kind < 0.6 ? this.document(dice) : kind < 0.75 ? spoil(dice, this.document(dice)) : bomb(dice);
    const members = [`"query":${JSON.stringify(query)}`];
    if (dice.chance(0.3)) members.push(`"variables":${this.#variables(dice)}`);
    if (dice.chance(0.1)) members.push(`"operationName":${dice.pick(['"A"', 'null', '""', '1', '"__proto__"'])}`);
    if (dice.chance(0.05)) members.push(`"extensions":${dice.pick(oddJson)}`);
    if (dice.chance(0.03)) members.push(`${JSON.stringify(dice.pick(oddTexts))}:${dice.pick(oddJson)}`);
    if (dice.chance(0.03)) members.shift();
    return `{${members.join()}}`;
  }

  /** An operation with all that it needs, of whatever there is. */
  document(dice: Dice): string {
    const operation = dice.pick(['query', 'query', 'query', 'mutation', 'mutation', 'subscription'] as const);
    const root = { query: 'Query', mutation: 'Mutation', subscription: 'Subscription' }[operation];
    const type = this.#schema.getType(root);
    if (!isObjectType(type)) return '{ __typename }';
    return `${operation}${dice.chance(0.3) ? ' A($v: ID, $n: Int)' : ''} ${this.#selection(dice, type, dice.below(9))}`;
  }

  #variables(dice: Dice): string {
    if (dice.chance(0.05)) return `{${Array.from({ length: 3_000 }, (_, index) => `"v${index}":${index}`).join()}}`;
    return dice.chance(0.5) ? `{"v":${dice.pick(oddJson)},"n":${dice.pick(oddJson)}}` : dice.pick(oddJson);
  }

  #selection(dice: Dice, type: GraphQLOutputType, depth: number): string {
    const named = getNamedType(type);
    if (!isCompositeType(named)) return '';
    const fields = isObjectType(named) || isInterfaceType(named) ? Object.values(named.getFields()) : [];
    const chosen = Array.from({ length: 1 + dice.below(3) }, () => {
      const field = fields.length === 0 || dice.chance(0.1) ? undefined : dice.pick(fields);
      if (field === undefined || (depth <= 0 && isCompositeType(getNamedType(field.type)))) return '__typename';
      const alias = dice.chance(0.2) ? `a${dice.below(1_000)}: ` : '';
      const directive = dice.chance(0.04)
        ? dice.pick([' @skip(if: true)', ' @include(if: $v)', ' @no', ' @defer'])
        : '';
      return `${alias}${field.name}${this.#arguments(dice, field.args)}${directive} ${this.#selection(dice, field.type, depth - 1)}`;
    });
    return `{ ${chosen.join(' ')} }`;
  }

  #arguments(dice: Dice, args: readonly GraphQLArgument[]): string {
    const given = args.flatMap(({ name, type }) => {
      if (!isNonNullType(type) && dice.chance(0.6)) return [];
      return [`${name}: ${dice.chance(0.05) ? dice.pick(['$v', '$n', '$no']) : this.#value(dice, type)}`];
    });
    if (dice.chance(0.02)) given.push('unknown: 1');
    return given.length === 0 ? '' : `(${given.join(', ')})`;
  }

  #value(dice: Dice, type: GraphQLInputType): string {
    if (dice.chance(0.04))
      return dice.pick(['null', '[]', '{}', '1e999', '-1', '"\\u0000"', '"""\n"""', 'TRUE', '[[1]]']);
    if (isNonNullType(type)) return this.#value(dice, type.ofType);
    if (isListType(type)) return `[${Array.from({ length: dice.below(4) }, () => this.#value(dice, type.ofType))}]`;
    if (isEnumType(type)) return dice.pick(type.getValues()).name;
    if (isInputObjectType(type)) {
      const fields = Object.values(type.getFields()).filter((field) => isRequiredInputField(field) || dice.chance(0.3));
      return `{${fields.map((field) => `${field.name}: ${this.#value(dice, field.type)}`).join(', ')}}`;
    }
    switch (getNamedType(type).name) {
      case 'Int':
        return dice.pick(['0', '1', '3', '20', '100', '101', '-5', '2147483647', '2147483648']);
      case 'Float':
        return dice.pick(['0.5', '-1e9', '1e400']);
      case 'Boolean':
        return dice.pick(['true', 'false']);
      case 'DateTime':
        return dice.pick(['"2026-11-21T06:12:00Z"', '"2031-01-01T00:00:00Z"', '"soon"']);
      case 'Metadata':
        return dice.pick(['{a: 1}', '{a: {b: 1}}', '{}', '[1]']);
      default:
        return JSON.stringify(this.#text(dice).toWellFormed());
    }
  }

  #text(dice: Dice): string {
    const kind = dice.next();
    const { own, foreign } = this.#names;
    if (kind < 0.4) return dice.pick(own);
    if (kind < 0.6) return dice.pick(foreign);
    return kind < 0.8 ? dice.pick(['Parcel', 'ada@example.com', 'https://hooks.invalid/a']) : dice.pick(oddTexts);
  }
}

/** Puts something in, takes something out, or repeats something. */
function spoil(dice: Dice, text: string): string {
  const at = dice.below(text.length);
  const to = Math.min(text.length, at + dice.below(20));
  return dice.pick([
    () =>
      text.slice(0, at) +
      dice.pick(['{', '}', '(', '$', '...', '"', '"""', '\0', '#', '\ufeff', '@', '📦']) +
      text.slice(at),
    () => text.slice(0, at) + text.slice(to),
    () => text.slice(0, to) + text.slice(at),
    () => text + text,
  ])();
}

/** Documents that are small to send and large to work on. */
export function bomb(dice: Dice): string {
  const size = dice.pick([10, 100, 600]);
  const many = (make: (index: number) => string): string =>
    Array.from({ length: size }, (_, index) => make(index)).join(' ');
  return dice.pick([
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

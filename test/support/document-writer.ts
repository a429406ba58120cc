import {
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLNamedInputType,
  type GraphQLOutputType,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isListType,
  isNonNullType,
  isObjectType,
  isRequiredInputField,
  type OperationTypeNode,
} from 'graphql';
import { schema } from '../../src/graphql/schema.ts';

type Fields = Readonly<Record<string, GraphQLField<unknown, unknown>>>;

/** A document with the values of its variables. */
export interface Asked {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>>;
  /** The root fields with their arguments. */
  readonly roots: readonly { readonly name: string; readonly args: Readonly<Record<string, unknown>> }[];
}

/** What there is to ask for. */
export interface Known {
  /** An id of each type, by the field that takes it. */
  readonly ids: Readonly<Record<string, string>>;
  /** Where a subscription begins. */
  readonly after?: string;
}

/** What a client may write, up to the longest that is taken and beyond. */
const texts = ['a', 'agent-3', 'x'.repeat(300), '漢'.repeat(16_384), '\u0001'.repeat(16_384), ''];
const largeMetadata = Object.fromEntries(Array.from({ length: 50 }, (_, index) => [`key${index}`, 'é'.repeat(70)]));

/** Longer values are those of variables: a document of them would be refused for its length. */
const maxLiteral = 2_000;

/** Writes an operation as a tape of numbers decides, each of which decides one thing. */
export class DocumentWriter {
  readonly #tape: readonly number[];
  readonly #known: Known;
  readonly #fragments: string[] = [];
  /** The names of the fragments on each type. */
  readonly #fragmentsOn = new Map<string, string[]>();
  readonly #variables: { readonly type: string; readonly value: unknown }[] = [];
  readonly #roots: Asked['roots'][number][] = [];
  #position = 0;
  #aliases = 0;

  constructor(tape: readonly number[], known: Known) {
    this.#tape = tape;
    this.#known = known;
  }

  operation(kind: `${OperationTypeNode}`): Asked {
    const root = schema.getRootType(kind as OperationTypeNode)?.name ?? '';
    const selection = kind === 'subscription' ? `{ ${this.#field(root, 0)} }` : this.#selection(root, 0);
    const declared = this.#variables.map(({ type }, index) => `$v${index}: ${type}`).join(', ');
    return {
      query: `${kind}${declared && ` (${declared})`} ${selection} ${this.#fragments.join(' ')}`,
      variables: Object.fromEntries(this.#variables.map(({ value }, index) => [`v${index}`, value])),
      roots: this.#roots,
    };
  }

  get #isOver(): boolean {
    return this.#position > this.#tape.length;
  }

  /** The next number of the tape, below a limit; 0 at its end. */
  #next(limit: number): number {
    return (this.#tape[this.#position++] ?? 0) % limit;
  }

  #pick<T>(choices: readonly T[]): T {
    return choices[this.#next(choices.length)] as T;
  }

  #selection(typeName: string, depth: number): string {
    const count = 1 + this.#next(this.#isOver ? 1 : depth < 4 ? 5 : 3);
    const parts = Array.from({ length: count }, () => this.#part(typeName, depth));
    return `{ ${parts.join(' ')} }`;
  }

  #part(typeName: string, depth: number): string {
    const type = schema.getType(typeName);
    switch (this.#position < this.#tape.length ? this.#next(8) : 8) {
      case 0:
        return `...${this.#directive()} ${this.#selection(typeName, depth)}`;
      case 1: {
        const name = `F${this.#fragments.length}`;
        this.#fragments.push('');
        this.#fragments[Number(name.slice(1))] = `fragment ${name} on ${typeName} ${this.#selection(typeName, depth)}`;
        // Known once complete: no cycles.
        this.#fragmentsOn.set(typeName, [...(this.#fragmentsOn.get(typeName) ?? []), name]);
        return `...${name}`;
      }
      case 2: {
        const known = this.#fragmentsOn.get(typeName);
        return known === undefined ? this.#field(typeName, depth) : `...${this.#pick(known)}${this.#directive()}`;
      }
      case 3: {
        const others = isAbstractType(type)
          ? schema.getPossibleTypes(type)
          : isObjectType(type)
            ? type.getInterfaces()
            : [];
        if (others.length === 0) return this.#field(typeName, depth);
        const { name } = this.#pick<{ name: string }>(others);
        return `... on ${name}${this.#directive()} ${this.#selection(name, depth)}`;
      }
      default:
        return this.#field(typeName, depth);
    }
  }

  #directive(): string {
    if (this.#isOver || this.#next(6) > 0) return '';
    return `${this.#pick([' @include', ' @skip'])}(if: $${this.#variable('Boolean!', this.#next(2) === 0)})`;
  }

  #field(typeName: string, depth: number): string {
    const type = schema.getType(typeName);
    if (!isObjectType(type) && !isAbstractType(type)) return '__typename';
    const all = Object.values('getFields' in type ? (type.getFields() as Fields) : {});
    const isLeaf = ({ type }: { type: GraphQLOutputType }): boolean => !isCompositeType(getNamedType(type));
    const fields = depth >= 10 || this.#isOver ? all.filter(isLeaf) : all;
    const composite = fields.filter((field) => !isLeaf(field));
    const among = composite.length > 0 && this.#next(3) > 0 ? composite : fields;
    const field = among.length === 0 ? undefined : this.#pick(among);
    if (field === undefined) return '__typename';
    const given = this.#argumentsOf(field, depth);
    // What an answer is counted by: the items of `edges`, and metadata.
    const alias = this.#next(3) === 0 && given === '' ? '' : `${field.name}${this.#aliases++}: `;
    const directive = typeName === 'Subscription' ? '' : this.#directive();
    const inner = isLeaf(field) ? '' : this.#selection(getNamedType(field.type).name, depth + 1);
    return `${alias}${field.name}${given}${directive} ${inner}`;
  }

  #argumentsOf(field: GraphQLField<unknown, unknown>, depth: number): string {
    const args: Record<string, unknown> = {};
    const given: string[] = [];
    for (const argument of field.args) {
      const value = this.#argument(argument, field);
      if (value === undefined) continue;
      args[argument.name] = value;
      const text = literal(argument.type, value);
      const isVariable = (!this.#isOver && this.#next(3) === 0) || text.length > maxLiteral;
      given.push(`${argument.name}: ${isVariable ? `$${this.#variable(String(argument.type), value)}` : text}`);
    }
    if (depth === 0) this.#roots.push({ name: field.name, args });
    return given.length === 0 ? '' : `(${given.join(', ')})`;
  }

  /** One that has this value already, or a new one. @returns its name */
  #variable(type: string, value: unknown): string {
    const known = this.#variables.findIndex((each) => each.type === type && each.value === value);
    if (known === -1) this.#variables.push({ type, value });
    return `v${known === -1 ? this.#variables.length - 1 : known}`;
  }

  /** @returns undefined if it is left out */
  #argument({ name, type }: GraphQLArgument, field: GraphQLField<unknown, unknown>): unknown {
    const { ids, after } = this.#known;
    switch (name) {
      case 'id':
        return this.#next(8) === 0 ? this.#text() : (ids[field.name] ?? ids['conversation']);
      case 'ids': {
        const every = Object.values(ids);
        return Array.from({ length: this.#next(100) }, (_, index) => every[index % every.length]);
      }
      case 'first':
        return isCompositeType(getNamedType(field.type)) && this.#next(4) > 0
          ? this.#pick([1, 5, 20, 100, 100])
          : undefined;
      case 'after':
        return after ?? (this.#next(12) === 0 ? this.#text() : undefined);
      case 'name':
        return 'Query';
      case 'interval':
        return this.#next(2) > 0 ? 'HOUR' : undefined;
      case 'reader':
        return this.#next(8) === 0 ? this.#text() : 'agent-3';
      case 'q':
        return this.#pick(['a', 'h', 'hello', 'hi h']);
      default:
        return isNonNullType(type) || this.#next(6) === 0 ? this.#value(type, name) : undefined;
    }
  }

  #text(): string {
    return this.#pick(texts);
  }

  #value(type: GraphQLInputType, name: string): unknown {
    if (isNonNullType(type)) return this.#value(type.ofType, name);
    if (isListType(type)) {
      const one = this.#value(type.ofType, name);
      const length = this.#pick([1, 0, 3, typeof one === 'string' && one.length > maxLiteral ? 3 : 100]);
      return Array.from({ length }, () => one);
    }
    if (isInputObjectType(type)) {
      const given = Object.values(type.getFields()).filter((each) => isRequiredInputField(each) || this.#next(2) === 0);
      return Object.fromEntries(given.map((each) => [each.name, this.#value(each.type, each.name)]));
    }
    if (isEnumType(type)) return this.#pick(type.getValues()).name;
    return this.#scalar(type, name);
  }

  #scalar({ name: type }: GraphQLNamedInputType, name: string): unknown {
    const { ids } = this.#known;
    switch (type) {
      case 'Boolean':
        return this.#next(2) === 0;
      case 'Int':
        return this.#pick([1, 0, 5, 100, 10_001]);
      case 'DateTime':
        return this.#pick(['2026-01-01T00:00:00Z', '2027-01-01T00:00:00Z', '0001-01-01T00:00:00Z']);
      case 'Metadata':
        return this.#pick([{ page: 1 }, largeMetadata]);
      case 'ID':
        return this.#next(3) === 0 ? this.#text() : (ids[name.replace(/Id$/, '')] ?? ids['conversation']);
      default:
        return name === 'url' ? 'https://example.com/hook' : this.#text();
    }
  }
}

/** A value as a document spells it. */
function literal(type: GraphQLInputType, value: unknown): string {
  if (isNonNullType(type)) return literal(type.ofType, value);
  if (isListType(type)) return `[${(value as unknown[]).map((item) => literal(type.ofType, item)).join(', ')}]`;
  if (isInputObjectType(type)) {
    const fields = type.getFields();
    const given = Object.entries(value as object);
    return `{ ${given.map(([name, inner]) => `${name}: ${literal(fields[name]?.type as GraphQLInputType, inner)}`).join(', ')} }`;
  }
  if (isEnumType(type)) return String(value);
  if (typeof value === 'object') return JSON.stringify(value).replaceAll(/"(\w+)":/g, '$1: ');
  return JSON.stringify(value);
}

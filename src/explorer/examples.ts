import {
  type GraphQLAbstractType,
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLNamedType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isAbstractType,
  isEnumType,
  isInputObjectType,
  isLeafType,
  isListType,
  isObjectType,
  isRequiredArgument,
  isRequiredInputField,
  isUnionType,
  type OperationTypeNode,
} from 'graphql';

// An example for each operation of a schema: with its variables, and a selection of what it answers.

export interface Example {
  readonly kind: OperationTypeNode;
  readonly name: string;
  readonly document: string;
  /** As JSON. */
  readonly variables: string;
}

/** How many objects are selected within each other, not counting what only wraps them. */
const maxDepth = 2;

/** Values by the names of arguments and fields. Those that are not needed are in an example only if they are listed. */
const values: Readonly<Record<string, unknown>> = {
  content: 'Where is my parcel?',
  documents: [{ id: 'inbox-1', text: 'query Account { account { name } }' }],
  email: 'ada@example.com',
  first: 5,
  name: 'Ada',
  q: 'parcel',
  reader: 'agent-3',
  sender: 'AGENT',
  sequence: 0,
  since: '2026-11-21T06:12:00.000Z',
  subject: 'Parcel 1042',
  url: 'https://example.com/hooks',
};

/** The id of a document is its client's own. */
const idsOf: Readonly<Record<string, string>> = { deleteDocument: 'inbox-1' };

/** How ids begin, by what they are of. An id that somebody has seen is put in the place of the example. */
const prefixes: readonly (readonly [RegExp, string])[] = [
  [/deliver/i, 'dlv_'],
  [/webhook/i, 'whk_'],
  [/lead/i, 'lead_'],
  [/message(?!s)/i, 'msg_'],
  [/apiKey/i, 'key_'],
  [/./, 'conv_'],
];

export function examplesOf(schema: GraphQLSchema): Example[] {
  return (['query', 'mutation', 'subscription'] as OperationTypeNode[]).flatMap((kind) =>
    Object.values(schema.getRootType(kind)?.getFields() ?? {}).map((field) => exampleOf(schema, kind, field)),
  );
}

function exampleOf(schema: GraphQLSchema, kind: OperationTypeNode, field: GraphQLField<unknown, unknown>): Example {
  const taken = field.args.filter((each) => isRequiredArgument(each) || Object.hasOwn(values, each.name));
  const declared = taken.map(({ name, type }) => `$${name}: ${type}`).join(', ');
  const given = taken.map(({ name }) => `${name}: $${name}`).join(', ');
  const name = field.name.replace(/^./, (first) => first.toUpperCase());
  const comment = (field.description ?? '').replaceAll(/^(?=.)/gm, '# ').replace(/(?<=.)$/, '\n');
  const selection = new Selection(schema, !isWrapper(getNamedType(field.type)));
  return {
    kind,
    name: field.name,
    document: `${comment}${kind} ${name}${declared && `(${declared})`} {
  ${field.name}${given && `(${given})`}${selection.of(field.type)}
}
`,
    variables: JSON.stringify(
      Object.fromEntries(taken.map((each) => [each.name, exampleValue(each, field.name)])),
      null,
      2,
    ),
  };
}

/** What an example asks for. */
class Selection {
  readonly #schema: GraphQLSchema;
  readonly #hasPages: boolean;

  /** @param hasPages whether lists within an object are selected: that would be much for each of many */
  constructor(schema: GraphQLSchema, hasPages: boolean) {
    this.#schema = schema;
    this.#hasPages = hasPages;
  }

  /** The braces after a field; nothing for a leaf. */
  of(outer: GraphQLOutputType, path: readonly GraphQLNamedType[] = [], indentation = '  '): string {
    const type = getNamedType(outer);
    if (isLeafType(type)) return '';
    const deeper = `${indentation}  `;
    const lines = isObjectType(type) ? [] : ['__typename'];
    const fields = isUnionType(type) ? [] : Object.values(type.getFields()).filter(isShown);
    fields.sort((one, other) => Number(other.name === 'id') - Number(one.name === 'id'));
    const within = isWrapper(type) ? path : [...path, type];
    for (const { name, type: inner } of fields) {
      const named = getNamedType(inner);
      if (isWrapper(type) && /edges?$/i.test(name)) continue; // the same once more
      if (isWrapper(named) && !this.#hasPages) continue;
      if (!isLeafType(named) && (within.length >= maxDepth || path.includes(named))) continue;
      lines.push(`${name}${this.of(inner, within, deeper)}`);
    }
    if (isAbstractType(type)) lines.push(...this.#partsOf(type));
    return ` {\n${lines.map((line) => `${deeper}${line}\n`).join('')}${indentation}}`;
  }

  /** What the types have that an abstract one stands for: the ids of the objects in them. */
  #partsOf(type: GraphQLAbstractType): string[] {
    return this.#schema.getPossibleTypes(type).flatMap((each) => {
      const objects = Object.values(each.getFields()).filter(({ type: inner }) => hasId(getNamedType(inner)));
      return objects.length === 0
        ? []
        : [`... on ${each} { ${objects.map(({ name }) => `${name} { id }`).join(' ')} }`];
    });
  }
}

function hasId(type: GraphQLNamedType): boolean {
  return isObjectType(type) && type.getFields()['id'] !== undefined;
}

function isShown({ args, deprecationReason }: GraphQLField<unknown, unknown>): boolean {
  return deprecationReason == null && !args.some(isRequiredArgument);
}

/** A page of a list, or the result of a mutation. */
function isWrapper({ name }: GraphQLNamedType): boolean {
  return /(Connection|Payload)$/.test(name);
}

/** @param operation the name of the field, which says what an `id` is of */
function exampleValue({ name, type }: Pick<GraphQLArgument, 'name' | 'type'>, operation: string): unknown {
  return values[name] ?? exampleOfType(getNullableType(type), name, operation);
}

function exampleOfType(type: GraphQLInputType, name: string, operation: string): unknown {
  if (isListType(type)) return [exampleOfType(getNullableType(type.ofType), name, operation)];
  if (isEnumType(type)) return type.getValues()[0]?.name;
  if (isInputObjectType(type)) {
    const fields = Object.values(type.getFields());
    const taken = fields.filter((each) => isRequiredInputField(each) || Object.hasOwn(values, each.name));
    return Object.fromEntries(taken.map((each) => [each.name, exampleValue(each, operation)]));
  }
  if (name === 'id' && idsOf[operation] !== undefined) return idsOf[operation];
  const kind = name === 'id' ? operation : name;
  const [, prefix = ''] = prefixes.find(([words]) => words.test(kind)) ?? [];
  return { Int: 1, Float: 1, Boolean: true }[type.toString()] ?? `${prefix}01m7z12aypfmvv4snqnjfg9r62`;
}

/** A document as parsers of GraphQL make it: a `DocumentNode` of `graphql`, of whichever version, or of gql.tada. */
export interface ParsedDocument {
  readonly definitions: readonly { readonly kind: string }[];
}

/**
 * A document that may know the types of its result and its variables, and its id: a `TypedDocumentNode`, a document of
 * gql.tada, a `TypedDocumentString` of GraphQL Code Generator, or nothing but the id of one that is registered.
 */
export interface TypedDocument<Data, Variables> extends Partial<ParsedDocument> {
  readonly __apiType?: ((variables: Variables) => Data) | undefined;
  /** Of gql.tada’s persisted documents. */
  readonly documentId?: string | undefined;
  /** Where GraphQL Code Generator puts the id of persisted documents. */
  readonly __meta__?: { readonly hash?: string } | undefined;
}

/** What parsers make of a document: of each kind, the fields that are used here. */
interface Node {
  readonly kind: string;
  readonly name?: Node;
  readonly alias?: Node;
  readonly operation?: string;
  readonly value?: string | boolean | Node;
  readonly values?: readonly Node[];
  readonly fields?: readonly Node[];
  readonly type?: Node;
  readonly typeCondition?: Node;
  readonly variable?: Node;
  readonly defaultValue?: Node;
  readonly variableDefinitions?: readonly Node[];
  readonly arguments?: readonly Node[];
  readonly directives?: readonly Node[];
  readonly selectionSet?: { readonly selections: Selections };
}

export type Selections = readonly Node[];

/** What is sent of a document: its id or, if it has none, its text; and whether it surely changes nothing. */
export function partsOf(document: string | TypedDocument<unknown, never>): { sent: object; isQuery: boolean } {
  const { documentId, __meta__, definitions } = document as TypedDocument<unknown, never>;
  const id = documentId ?? __meta__?.hash;
  const query = definitions ? list(definitions) : `${document}`;
  return {
    sent: id ? { documentId: id } : { query },
    isQuery: !/\bmutation\b|^\[/.test(query), // an id alone is no text, but "[object Object]"
  };
}

const list = (nodes: readonly Node[] | undefined): string => nodes?.map(textOf).join(' ') ?? '';
const within = (open: string, nodes: readonly Node[] | undefined, close: string): string =>
  nodes?.[0] ? open + list(nodes) + close : '';
const after = (open: string, node: Node | undefined): string => (node ? open + textOf(node) : '');

/** How nodes begin that have no word of their own for it. */
const beginnings: Readonly<Record<string, string>> = {
  FragmentDefinition: 'fragment ',
  FragmentSpread: '...',
  InlineFragment: '...',
  Directive: '@',
  Variable: '$',
  NullValue: 'null',
};

function textOf(node: Node | undefined): string {
  if (!node) return '';
  const { kind, name, alias, value, values, fields, type, variable, operation } = node;
  if (variable) return textOf(variable) + after(':', type) + after('=', node.defaultValue);
  if (kind === 'ListType') return `[${textOf(type)}]`;
  if (type) return `${textOf(type)}!`;
  if (values) return `[${list(values)}]`;
  if (fields) return `{${list(fields)}}`;
  if (typeof value === 'object') return textOf(name) + after(':', value);
  if (value !== undefined) return kind === 'StringValue' ? JSON.stringify(value) : `${value}`;
  return [
    operation ? `${operation} ` : beginnings[kind],
    alias && `${textOf(alias)}:`,
    textOf(name),
    after(' on ', node.typeCondition),
    within('(', node.variableDefinitions ?? node.arguments, ')'),
    list(node.directives),
    within('{', node.selectionSet?.selections, '}'),
  ].join('');
}

/** What was asked for under a key of a response. */
export interface Asked {
  readonly name: string;
  readonly selections: Selections;
}

/** What the operation of a document asks for. */
export function selectionsOf({ definitions }: ParsedDocument): Selections {
  return (definitions as Selections).find(({ operation }) => operation)?.selectionSet?.selections ?? [];
}

/** What an object of a type was asked for, by the keys of the response. */
export function askedOf(
  { definitions }: ParsedDocument,
  type: unknown,
  selections: Selections,
): ReadonlyMap<string, Asked> {
  const asked = new Map<string, Asked>();
  function add(some: Selections, isOfType: boolean): void {
    for (const selection of some) {
      const name = textOf(selection.name);
      if (selection.kind === 'Field') {
        const key = textOf(selection.alias) || name;
        const known = asked.get(key) ?? { name, selections: [] };
        const own = selection.selectionSet?.selections ?? [];
        if (known.name === name) asked.set(key, { name, selections: [...known.selections, ...own] });
        // Fragments on other types can have other fields under this key.
        else if (isOfType) asked.set(key, { name, selections: own });
      } else {
        const fragment = name
          ? (definitions as Selections).find((each) => !each.operation && textOf(each.name) === name)
          : selection;
        const condition = textOf(fragment?.typeCondition);
        add(fragment?.selectionSet?.selections ?? [], condition ? condition === type : isOfType);
      }
    }
  }
  add(selections, false);
  return asked;
}

/** A document as parsers of GraphQL make it: a `DocumentNode` of `graphql`, of whichever version, or of gql.tada. */
export interface ParsedDocument {
  readonly definitions: readonly { readonly kind: string }[];
}

interface Name {
  readonly value: string;
}

export interface Selection {
  readonly kind: string;
  readonly name?: Name;
  readonly alias?: Name;
  readonly typeCondition?: { readonly name: Name };
  readonly selectionSet?: { readonly selections: readonly Selection[] };
}

/** What was asked for under a key of a response. */
export interface Asked {
  readonly name: string;
  readonly selections: readonly Selection[];
}

/** What the operation of a document asks for. */
export function selectionsOf({ definitions }: ParsedDocument): readonly Selection[] {
  return (definitions as readonly Selection[]).find(isOperation)?.selectionSet?.selections ?? [];
}

const isOperation = ({ kind }: { readonly kind: string }): boolean => kind === 'OperationDefinition';

/** What an object of a type was asked for, by the keys of the response. */
export function askedOf(
  { definitions }: ParsedDocument,
  type: unknown,
  selections: readonly Selection[],
): ReadonlyMap<string, Asked> {
  const asked = new Map<string, Asked>();
  function add(some: readonly Selection[], isOfType: boolean): void {
    for (const selection of some) {
      const { kind, name: { value: name } = { value: '' }, alias, selectionSet } = selection;
      if (kind === 'Field') {
        const key = alias?.value ?? name;
        const before = asked.get(key);
        // Fragments on other types can have other fields under this key.
        if (before !== undefined && before.name !== name && !isOfType) continue;
        const others = before?.name === name ? before.selections : [];
        asked.set(key, { name, selections: [...others, ...(selectionSet?.selections ?? [])] });
      } else {
        const fragment =
          kind === 'InlineFragment'
            ? selection
            : (definitions as readonly Selection[]).find((each) => !isOperation(each) && each.name?.value === name);
        const condition = fragment?.typeCondition?.name.value;
        add(fragment?.selectionSet?.selections ?? [], condition === undefined ? isOfType : condition === type);
      }
    }
  }
  add(selections, false);
  return asked;
}

import {
  type GraphQLArgument,
  type GraphQLField,
  type GraphQLInputField,
  type GraphQLNamedType,
  type GraphQLSchema,
  type GraphQLType,
  getNamedType,
  isAbstractType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
} from 'graphql';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';

// The schema, to be read: its operations, and from there every type that they take or answer.

const roots: readonly GraphQLNamedType[] = [];

interface SchemaViewProps {
  readonly schema: GraphQLSchema;
}

export function SchemaView({ schema }: SchemaViewProps) {
  /** The types that were opened from one another; the roots if there is none. */
  const [path, setPath] = useState<readonly GraphQLNamedType[]>(roots);
  const [words, setWords] = useState('');
  const type = path.at(-1);
  const open = (next: GraphQLNamedType): void => {
    setWords('');
    setPath([...path, next]);
  };
  const view = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (path !== roots) view.current?.querySelector('h2')?.focus(); // the link is gone, and this may be out of sight
  }, [path]);
  const operations = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  return (
    <div ref={view} class="types">
      <label>
        Find a type or a field
        <input type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
      </label>
      {words.trim() !== '' ? (
        <Found schema={schema} words={words.trim().toLowerCase()} open={open} />
      ) : type === undefined ? (
        operations.map((root) => root && <TypeView key={root.name} schema={schema} type={root} open={open} />)
      ) : (
        <>
          <p>
            <button type="button" onClick={() => setPath(path.slice(0, -1))}>
              ← {path.at(-2)?.name ?? 'Operations'}
            </button>
          </p>
          <TypeView schema={schema} type={type} open={open} />
        </>
      )}
    </div>
  );
}

interface Opens {
  readonly open: (type: GraphQLNamedType) => void;
}

const mostFound = 50;

/** Types and fields whose names have what was typed. */
function Found({ schema, words, open }: SchemaViewProps & Opens & { readonly words: string }) {
  const found = useMemo(() => {
    const types = Object.values(schema.getTypeMap()).filter(({ name }) => !name.startsWith('__'));
    const fields = types.flatMap((type) =>
      ('getFields' in type ? Object.keys(type.getFields()) : []).map((name) => ({ type, name })),
    );
    return [...types.map((type) => ({ type, name: '' })), ...fields]
      .filter(({ type, name }) => (name || type.name).toLowerCase().includes(words))
      .slice(0, mostFound);
  }, [schema, words]);
  if (found.length === 0) return <p class="hint">Nothing has this name.</p>;
  return (
    <ul>
      {found.map(({ type, name }) => (
        <li key={`${type.name}.${name}`}>
          <TypeLink type={type} open={open} />
          {name && <code>.{name}</code>}
        </li>
      ))}
    </ul>
  );
}

function TypeView({ schema, type, open }: SchemaViewProps & Opens & { readonly type: GraphQLNamedType }) {
  const fields: (GraphQLField<unknown, unknown> | GraphQLInputField)[] =
    isObjectType(type) || isInterfaceType(type) || isInputObjectType(type) ? Object.values(type.getFields()) : [];
  return (
    <section aria-label={type.name}>
      <h2 tabIndex={-1}>{type.name}</h2>
      <Description text={type.description} />
      {isAbstractType(type) && (
        <p>
          One of{' '}
          {schema.getPossibleTypes(type).map((each) => (
            <span key={each.name}>
              <TypeLink type={each} open={open} />{' '}
            </span>
          ))}
        </p>
      )}
      <dl>
        {fields.map((field) => (
          <div key={field.name} class="field">
            <dt>
              <code>
                {field.name}
                {'args' in field && field.args.length > 0 && <Arguments of={field.args} open={open} />}:{' '}
                <TypeLink type={field.type} open={open} />
              </code>
            </dt>
            <dd>
              {field.deprecationReason && <p class="bad">Deprecated: {field.deprecationReason}</p>}
              <Description text={field.description} />
            </dd>
          </div>
        ))}
        {isEnumType(type) &&
          type.getValues().map(({ name, description }) => (
            <div key={name} class="field">
              <dt>
                <code>{name}</code>
              </dt>
              <dd>
                <Description text={description} />
              </dd>
            </div>
          ))}
      </dl>
    </section>
  );
}

function Arguments({ of, open }: Opens & { readonly of: readonly GraphQLArgument[] }) {
  return (
    <>
      (
      {of.map(({ name, type }, index) => (
        <span key={name}>
          {index > 0 && ', '}
          {name}: <TypeLink type={type} open={open} />
        </span>
      ))}
      )
    </>
  );
}

/** A type as it is written, with a button that opens it. */
function TypeLink({ type, open }: Opens & { readonly type: GraphQLType }) {
  const named = getNamedType(type);
  const [before = '', after = ''] = String(type).split(named.name);
  return (
    <>
      {before}
      <button type="button" class="link" onClick={() => open(named)}>
        {named.name}
      </button>
      {after}
    </>
  );
}

/** Paragraphs, in which backticks are the only markup. */
function Description({ text }: { readonly text: string | null | undefined }) {
  return (
    <>
      {(text ?? '').split('\n').map((paragraph) => (
        <p key={paragraph}>
          {paragraph.split('`').map((part, index) => (index % 2 === 1 ? <code key={part}>{part}</code> : part))}
        </p>
      ))}
    </>
  );
}

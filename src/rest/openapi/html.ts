import type { JsonSchema } from '../../http/json-schema.ts';
import { nameOf } from './json-schema.ts';
import type {
  Content,
  OpenApiDocument,
  OpenApiOperation,
  OpenApiParameter,
  OpenApiResponse,
  Reference,
} from './types.ts';

// Renders the OpenAPI document as a page of plain HTML, without scripts and without resources of other hosts.

const style = `
  :root { color-scheme: light dark; --text: #1c2733; --faint: #5b6b7b; --back: #fff; --box: #f3f6f9; --line: #dbe2e9; --link: #0b63b5 }
  @media (prefers-color-scheme: dark) {
    :root { --text: #dde5ee; --faint: #93a3b3; --back: #11171d; --box: #1a222b; --line: #2c3844; --link: #7cc0ff }
  }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--text); background: var(--back) }
  a { color: var(--link) } nav a { text-decoration: none } nav a:hover { text-decoration: underline }
  nav { position: fixed; top: 0; bottom: 0; width: 15rem; overflow: auto; padding: 1rem; border-right: 1px solid var(--line); font-size: .9rem }
  nav ul { list-style: none; margin: 0; padding: 0 }
  main { margin-left: 17rem; max-width: 56rem; padding: 1rem 2rem 4rem }
  section { border-top: 1px solid var(--line); margin-top: 2.5rem }
  code, pre { font: .875em/1.5 ui-monospace, monospace; background: var(--box); border-radius: 4px } code { padding: .1em .3em }
  pre { padding: .75rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere } summary { cursor: pointer }
  table { border-collapse: collapse; width: 100%; font-size: .9rem }
  th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line) }
  small, .faint { color: var(--faint) } .gone { text-decoration: line-through }
  @media (max-width: 60rem) { nav { position: static; width: auto; border: 0 } main { margin: 0; padding: 1rem } }
`;

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

interface Entry {
  readonly method: string;
  readonly path: string;
  readonly operation: OpenApiOperation;
}

/** Renders the page. It links to `openapi.json` beside it. */
export function docsPage(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, item]) =>
    methods.flatMap((method): Entry[] =>
      item[method] ? [{ method: method.toUpperCase(), path, operation: item[method] }] : [],
    ),
  );
  for (const { post } of Object.values(document.webhooks)) {
    entries.push({ method: 'POST', path: 'the webhook’s URL', operation: post });
  }
  const ofTag = (tag: string): Entry[] => entries.filter(({ operation }) => operation.tags.includes(tag));
  const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => a.localeCompare(b));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${text(document.info.title)}</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<style>${style}</style>
</head>
<body>
<nav>
<p><a href="#top"><b>${text(document.info.title)}</b></a></p>
${document.tags.map(({ name }) => `<b>${text(name)}</b>\n${links(ofTag(name).map(({ operation }) => operation.operationId))}`).join('\n')}
<b>schemas</b>
${links(schemas.map(([name]) => name))}
</nav>
<main id="top">
<h1>${text(document.info.title)} <small>${text(document.info.version)}</small></h1>
${prose(document.info.description)}
<p>The same as an OpenAPI document: <a href="openapi.json">openapi.json</a></p>
${document.tags
  .map(
    ({ name, description }) =>
      `<section><h2>${text(name)}</h2>${prose(description)}</section>\n${ofTag(name)
        .map((entry) => operationSection(entry, document))
        .join('\n')}`,
  )
  .join('\n')}
<section><h2>problems</h2></section>
${Object.entries(document.components.responses)
  .map(([name, response]) => problemSection(name, response))
  .join('\n')}
<section><h2>schemas</h2></section>
${schemas.map(([name, schema]) => schemaSection(name, schema)).join('\n')}
</main>
</body>
</html>
`;
}

function operationSection({ method, path, operation }: Entry, { components }: OpenApiDocument): string {
  const { operationId, summary, description, parameters, requestBody, responses, deprecated } = operation;
  return `<section id="${operationId}">
<h3><code${deprecated ? ' class="gone"' : ''}>${method} ${text(path)}</code> <small>${operationId}</small></h3>
${prose(summary)}
${prose(description)}
${table(
  'Parameters',
  parameters.map((parameter) => parameterRow(resolve(parameter, components.parameters))),
)}
${requestBody ? `<h4>Body${requestBody.required ? '' : ' <small>optional</small>'}</h4>${content(requestBody.content)}` : ''}
${Object.entries(responses)
  .map(([status, response]) =>
    '$ref' in response ? problemLine(status, nameOf(response.$ref), components) : answerBlock(status, response),
  )
  .join('\n')}
</section>`;
}

function parameterRow({ name, in: place, required, description = '', schema }: OpenApiParameter): string {
  return row(name, `${typeOf(schema)}<br><small>in the ${place}${required ? ', required' : ''}</small>`, description);
}

function answerBlock(
  title: string,
  { description, headers, content: types = {} }: OpenApiResponse,
  heading: 'h3' | 'h4' = 'h4',
): string {
  const names = Object.keys(headers);
  return `<${heading}>${title} <small>${inline(description)}</small></${heading}>
${content(types)}
${names.length === 0 ? '' : `<p class="faint">Headers: ${names.map((name) => `<code>${name}</code>`).join(' ')}</p>`}`;
}

/** A link to a problem response, which is shown once for all operations. */
function problemLine(status: string, name: string, { responses }: OpenApiDocument['components']): string {
  return `<p><b><a href="#${name}">${status}</a></b> ${inline(responses[name]?.description ?? '')}</p>`;
}

function problemSection(name: string, response: OpenApiResponse): string {
  return `<section id="${name}">${answerBlock(name.replaceAll('-', ', '), response, 'h3')}</section>`;
}

function content(types: Content): string {
  return Object.entries(types)
    .map(([type, { schema, example, examples }]) => {
      const shown = example === undefined ? Object.values(examples ?? {}).map(({ value }) => value) : [example];
      return `<p><code>${type}</code> ${typeOf(schema)}</p>${shown.map((value) => `<pre>${text(layOut(value))}</pre>`).join('')}`;
    })
    .join('\n');
}

function schemaSection(name: string, schema: JsonSchema): string {
  const { description = '', properties = {}, required = [] } = schema;
  const rows = Object.entries(properties).flatMap(([key, property]) =>
    propertyRows(key, property, required.includes(key)),
  );
  return `<section id="${name}"><h3>${name}</h3>
${prose(description)}
${rows.length === 0 ? `<p>${typeOf({ ...schema, description: '' })}</p>` : table('Fields', rows)}</section>`;
}

/** A row for a field, and rows for its nested fields unless they belong to a named schema. */
function propertyRows(name: string, schema: JsonSchema, required: boolean): string[] {
  const { description = '', items, anyOf = [] } = schema;
  const inner = [schema, ...anyOf, ...(items === undefined ? [] : [items])].find(({ properties }) => properties);
  return [
    row(name, `${typeOf(schema)}${required ? '' : '<br><small>optional</small>'}`, description),
    ...Object.entries(inner?.properties ?? {}).flatMap(([key, property]) =>
      propertyRows(`${name}.${key}`, property, inner?.required?.includes(key) ?? false),
    ),
  ];
}

/** A type in words, with its bounds. */
function typeOf(schema: JsonSchema): string {
  const bounds = boundsOf(schema);
  return bounds.length === 0 ? wordsOf(schema) : `${wordsOf(schema)}<br><small>${bounds.join(', ')}</small>`;
}

function wordsOf(schema: JsonSchema): string {
  const { $ref, type, items, format, allOf, oneOf, anyOf = oneOf } = schema;
  if ($ref !== undefined) return `<a href="#${nameOf($ref)}">${nameOf($ref)}</a>`;
  if (schema.const !== undefined) return code(schema.const);
  if (allOf !== undefined) return wordsOf(allOf[0] ?? {});
  if (anyOf !== undefined) return anyOf.map(wordsOf).join(' or ');
  if (schema.enum !== undefined) return schema.enum.map(code).join(' ');
  if (items !== undefined) return `list of ${wordsOf(items)}`;
  const words = typeof type === 'string' ? [type] : (type ?? ['any']);
  return words.map((word) => (word === 'string' ? (format ?? word) : word)).join(' or ');
}

function boundsOf(schema: JsonSchema): string[] {
  const { minimum, maximum, minLength, maxLength, default: preset, anyOf = [] } = schema;
  return [
    ...(minimum === undefined ? [] : [maximum === undefined ? `${minimum} or more` : `${minimum} to ${maximum}`]),
    ...(maxLength === undefined ? [] : [`${minLength ?? 0} to ${maxLength} characters`]),
    ...(['string', 'number', 'boolean'].includes(typeof preset) ? [`default ${code(preset)}`] : []),
    ...anyOf.flatMap(boundsOf),
  ];
}

function table(title: string, rows: readonly string[]): string {
  return rows.length === 0 ? '' : `<h4>${title}</h4><table>${rows.join('\n')}</table>`;
}

function row(name: string, type: string, description: string): string {
  return `<tr><td><code>${text(name)}</code></td><td>${type}</td><td>${inline(description)}</td></tr>`;
}

function links(names: readonly string[]): string {
  return `<ul>${names.map((name) => `<li><a href="#${name}">${name}</a></li>`).join('')}</ul>`;
}

function resolve<T extends object>(thing: T | Reference, named: Readonly<Record<string, T>>): T {
  return '$ref' in thing ? (named[nameOf(thing.$ref)] as T) : thing;
}

function layOut(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

function prose(paragraphs: string): string {
  return paragraphs
    .split('\n\n')
    .map((paragraph) => `<p>${inline(paragraph)}</p>`)
    .join('\n');
}

/** Escapes a description, and renders backticks, its only markup, as code. */
function inline(description: string): string {
  return text(description).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

function code(value: unknown): string {
  return `<code>${text(JSON.stringify(value))}</code>`;
}

function text(raw: string): string {
  return raw.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

import type { JsonSchema } from '../../http/json-schema.ts';
import { nameOf } from './json-schema.ts';
import { type Call, curlSample, serviceOf, typeScriptSample } from './samples.ts';
import type { Content, OpenApiDocument, OpenApiParameter, OpenApiResponse, Reference } from './types.ts';

// Renders the OpenAPI document as a page of plain HTML, which can be read without its script. That one, src/reference, adds
// what can be tried.

const methods = ['get', 'post', 'put', 'patch', 'delete'] as const;

interface Entry extends Call {
  /** Whether the service sends it, instead of answering it. */
  readonly isSent?: boolean;
}

/**
 * Renders the page. It links to `openapi.json` beside it.
 * @param addressOf where its script and its styles are; undefined if they have not been built
 */
export function docsPage(document: OpenApiDocument, addressOf?: (name: string) => string): string {
  const entries = Object.entries(document.paths).flatMap(([path, item]) =>
    methods.flatMap((method): Entry[] =>
      item[method] ? [{ method: method.toUpperCase(), path, operation: item[method] }] : [],
    ),
  );
  for (const { post } of Object.values(document.webhooks)) {
    entries.push({ method: 'POST', path: 'the webhook’s URL', operation: post, isSent: true });
  }
  const ofTag = (tag: string): Entry[] => entries.filter(({ operation }) => operation.tags.includes(tag));
  const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => a.localeCompare(b));
  const title = text(document.info.title);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reference · ${title}</title>
<link rel="icon" href="favicon.svg" type="image/svg+xml">
${
  addressOf === undefined
    ? ''
    : `<link rel="stylesheet" href="${addressOf('reference.css')}">
<script type="module" src="${addressOf('reference.js')}" data-service="${serviceOf(document)}"></script>`
}
</head>
<body>
<header class="bar">
<a class="home" href="./"><img src="favicon.svg" alt=""> ${title}</a> <small>${text(document.info.version)}</small>
<a href="openapi.json">openapi.json</a> <a href="graphql">GraphQL</a> <a href="console">Console</a>
</header>
<nav aria-label="Operations and schemas">
${document.tags
  .map(({ name }) =>
    navGroup(
      name,
      ofTag(name).map(({ operation, method }) => [operation.operationId, method] as const),
    ),
  )
  .join('\n')}
${navGroup(
  'schemas',
  schemas.map(([name]) => [name] as const),
)}
</nav>
<main id="top">
<div class="intro">
<h1>${title}: the reference</h1>
${prose(document.info.description)}
</div>
<div id="caller"></div>
${document.tags
  .map(
    ({ name, description }) =>
      `<section class="group"><h2>${text(name)}</h2>${prose(description)}</section>\n${ofTag(name)
        .map((entry) => operationSection(entry, document))
        .join('\n')}`,
  )
  .join('\n')}
<section class="group"><h2>problems</h2></section>
${Object.entries(document.components.responses)
  .map(([name, response]) => problemSection(name, response))
  .join('\n')}
<section class="group"><h2>schemas</h2></section>
${schemas.map(([name, schema]) => schemaSection(name, schema)).join('\n')}
</main>
</body>
</html>
`;
}

function operationSection(entry: Entry, document: OpenApiDocument): string {
  const { method, path, operation } = entry;
  const { operationId, summary, description, parameters, requestBody, responses, deprecated } = operation;
  const { components } = document;
  const about = `<h3>${methodBadge(method)} <code${deprecated ? ' class="gone"' : ''}>${text(path)}</code> <small>${operationId}</small></h3>
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
  .join('\n')}`;
  if (entry.isSent) return `<section id="${operationId}">${about}</section>`;
  return `<section class="operation" id="${operationId}">
<div>${about}</div>
<aside aria-label="${operationId}: samples">
${sample(operationId, 'curl', curlSample(entry, document), true)}
${sample(operationId, 'TypeScript', typeScriptSample(entry, document), false)}
</aside>
</section>`;
}

/** Of those of one operation, one is open at a time. */
function sample(operationId: string, language: string, program: string, isOpen: boolean): string {
  return `<details class="sample" name="sample-${operationId}"${isOpen ? ' open' : ''}><summary>${language}</summary><pre><code>${text(program)}</code></pre></details>`;
}

function methodBadge(method: string): string {
  return `<span class="method ${method.toLowerCase()}">${method}</span>`;
}

function navGroup(title: string, entries: readonly (readonly [name: string, method?: string])[]): string {
  const items = entries.map(
    ([name, method]) => `<li><a href="#${name}">${name}${method ? ` ${methodBadge(method)}` : ''}</a></li>`,
  );
  return `<section><h2>${text(title)}</h2><ul>${items.join('')}</ul></section>`;
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

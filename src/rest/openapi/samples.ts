import { nameOf } from './json-schema.ts';
import type { OpenApiDocument, OpenApiOperation, OpenApiParameter } from './types.ts';

// Code that calls an operation, to be copied: made of the examples in the document.

export interface Call {
  /** In capitals. */
  readonly method: string;
  /** With the names of its parameters in braces. */
  readonly path: string;
  readonly operation: OpenApiOperation;
}

/** Stands for the address of the service until that is known. */
export const localService = 'http://127.0.0.1:4000';

/** How many characters of an object are still easy to read on one line. */
const shortLength = 70;

/** The address of the service, as far as the document knows it. */
export function serviceOf({ servers }: OpenApiDocument): string {
  const url = servers[0]?.url ?? '/';
  return url === '/' ? localService : url;
}

/** A command for the shell, with the credential in `$KEY`. */
export function curlSample(call: Call, document: OpenApiDocument): string {
  const { method, path, operation } = call;
  const parameters = neededParameters(operation, document);
  const query = parameters.filter((each) => each.in === 'query').map((each) => `${each.name}=${asPart(each.example)}`);
  const address = parameters
    .filter((each) => each.in === 'path')
    .reduce((address, { name, example }) => address.replace(`{${name}}`, asPart(example)), path);
  const body = bodyOf(operation);
  const flags = [
    ...(isStream(operation) ? ['-N'] : []),
    ...(method === (body ? 'POST' : 'GET') ? [] : [`-X ${method}`]),
  ];
  return [
    ['curl', ...flags, quoted(`${serviceOf(document)}${address}${query.length > 0 ? `?${query.join('&')}` : ''}`)].join(
      ' ',
    ),
    '-H "Authorization: Bearer $KEY"',
    ...(body === undefined ? [] : ["-H 'Content-Type: application/json'", `-d ${quoted(written(body, json))}`]),
  ].join(' \\\n  ');
}

/** A program for the client of this package, with the credential in the environment. */
export function typeScriptSample({ operation }: Call, document: OpenApiDocument): string {
  const start = `import { env } from 'node:process';
import { Client } from 'conversation-service/client';

const client = new Client({ url: '${serviceOf(document)}', credential: env['KEY'] ?? '' });
`;
  if (isStream(operation)) return `${start}for await (const event of client.follow()) console.log(event);`;
  const parameters = neededParameters(operation, document).map(({ name, example }) => [name, example]);
  const input = { ...Object.fromEntries(parameters), ...(bodyOf(operation) as object | undefined) };
  const given = Object.keys(input).length > 0 ? `, ${written(input, typeScript)}` : '';
  const call = `await client.call('${operation.operationId}'${given})`;
  return `${start}${operation.responses[204] ? `${call};` : `console.log(${call});`}`;
}

function isStream({ responses }: OpenApiOperation): boolean {
  const answer = responses[200];
  return answer !== undefined && 'content' in answer && answer.content?.['text/event-stream'] !== undefined;
}

function neededParameters({ parameters }: OpenApiOperation, { components }: OpenApiDocument): OpenApiParameter[] {
  return parameters
    .map((each) => ('$ref' in each ? (components.parameters[nameOf(each.$ref)] as OpenApiParameter) : each))
    .filter(({ required }) => required);
}

function bodyOf({ requestBody }: OpenApiOperation): unknown {
  return requestBody?.content['application/json']?.example;
}

function asPart(value: unknown): string {
  return encodeURIComponent(String(value)).replaceAll('%3A', ':');
}

/** A word of the shell, whatever is in it. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** How a value is written in a language: in JSON, or in TypeScript. */
interface Spelling {
  readonly text: (text: string) => string;
  readonly key: (name: string) => string;
  /** After the last of several lines. */
  readonly lastComma: '' | ',';
}

const json: Spelling = { text: (text) => JSON.stringify(text), key: (name) => JSON.stringify(name), lastComma: '' };

const typeScript: Spelling = {
  text: (text) => `'${JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`,
  key: (name) => (/^[a-z_$][\w$]*$/i.test(name) ? name : typeScript.text(name)),
  lastComma: ',',
};

function written(value: unknown, spelling: Spelling, indentation = ''): string {
  if (typeof value === 'string') return spelling.text(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const deeper = `${indentation}  `;
  const isList = Array.isArray(value);
  const parts = Object.entries(value).map(([name, part]) => {
    const text = written(part, spelling, deeper);
    return isList ? text : `${spelling.key(name)}: ${text}`;
  });
  const [open, close] = isList ? '[]' : '{}';
  const gap = isList || parts.length === 0 ? '' : ' ';
  const line = `${open}${gap}${parts.join(', ')}${gap}${close}`;
  if (line.length <= shortLength && !line.includes('\n')) return line;
  return `${open}\n${deeper}${parts.join(`,\n${deeper}`)}${spelling.lastComma}\n${indentation}${close}`;
}

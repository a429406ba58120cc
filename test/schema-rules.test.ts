import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished } from 'vitest';
import type { Json } from './support/client.ts';
import { longTest as test } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { startTestServer } from './support/server.ts';

// What the rules that others follow find in the two schemas. The exceptions are beside the rules, in test/schema-rules.

const run = promisify(execFile);

interface Finding {
  readonly where: string;
  readonly message: string;
}

function pathOf(file: string): string {
  return fileURLToPath(new URL(file, import.meta.url));
}

async function inGraphQL(file: string): Promise<{ found: Finding[]; needless: string[] }> {
  const hook = new URL('schema-rules/one-graphql.ts', import.meta.url).href;
  const { stdout } = await run(process.execPath, ['--import', hook, pathOf('schema-rules/graphql-rules.ts'), file]);
  return JSON.parse(stdout);
}

async function inOpenApi(url: string): Promise<Finding[]> {
  const { stdout } = await run(process.execPath, [pathOf('schema-rules/openapi-rules.ts'), url]);
  return JSON.parse(stdout);
}

/** @throws Error when there is not exactly one place to change */
function changed(text: string, from: string, to: string): string {
  expect(text.split(from)).toHaveLength(2);
  return text.replace(from, to);
}

describe('schema.graphql', () => {
  const file = pathOf('../schema.graphql');

  test('follows the rules of GraphQL ESLint for schemas and for Relay, and needs every exception from them', async () => {
    expect(await inGraphQL(file)).toEqual({ found: [], needless: [] });
  });

  test('would not pass with a type that is not described, a name of another style, or an edge without a cursor', async () => {
    const text = readFileSync(file, 'utf8');
    const described = '"""A credential for programs that call the service."""\n';
    const cursor =
      '  """The opaque position in the list, for `after` or `before`."""\n  cursor: String!\n\n  """The Lead."""';
    const spoiled = join(temporaryFolder(), 'schema.graphql');
    writeFileSync(
      spoiled,
      changed(
        changed(changed(text, described, ''), '\n  prefix: String!', '\n  Prefix: String!'),
        cursor,
        '"""The lead."""',
      ),
    );
    const { found } = await inGraphQL(spoiled);
    expect(found.map(({ where }) => where)).toEqual([
      'require-description ApiKey',
      'naming-convention ApiKey.Prefix',
      'relay-edge-types LeadEdge',
    ]);
  });
});

describe('openapi.json', () => {
  test('follows the rules of Spectral, without a warning, wherever it is served', async () => {
    for (const publicUrl of [undefined, 'https://chat.example.com/api']) {
      const server = await startTestServer({ config: { publicUrl } });
      onTestFinished(() => server.close());
      expect(await inOpenApi(`${server.url}/openapi.json`)).toEqual([]);
    }
  });

  test('would not pass with an operation that has no name, or an example of another type', async () => {
    const server = await startTestServer();
    onTestFinished(() => server.close());
    const document: Json = await (await fetch(`${server.url}/openapi.json`)).json();
    const operation = document.paths['/v1/leads'].get;
    delete operation.operationId;
    operation.responses[200].content['application/json'].example.pagination.limit = 'many';
    const other = createServer((_, response) => response.end(JSON.stringify(document))).listen(0, '127.0.0.1');
    onTestFinished(() => void other.close());
    await once(other, 'listening');
    const found = await inOpenApi(`http://127.0.0.1:${(other.address() as AddressInfo).port}`);
    expect(found.map(({ where }) => where)).toEqual([
      'operation-operationId paths//v1/leads/get',
      'oas3-valid-media-example paths//v1/leads/get/responses/200/content/application/json/example/pagination/limit',
    ]);
  });
});

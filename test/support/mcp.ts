import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { Json } from './client.ts';

/** The revisions that clients speak: by a handshake, as until 2025, or by an envelope in each request. */
export const revisions = ['legacy', { pin: '2026-07-28' }] as const;
type Revision = (typeof revisions)[number];

export interface Called {
  readonly isError: boolean;
  /** The JSON of the answer, or of the problem. */
  readonly answer: Json;
}

/** A stock client of the Model Context Protocol. */
export interface McpClient {
  readonly client: Client;
  tools(): Promise<Json[]>;
  call(name: string, args?: object): Promise<Called>;
}

export async function connectMcp(url: string, secret: string, mode: Revision = 'legacy'): Promise<McpClient> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const requestInit = { headers: { authorization: `Bearer ${secret}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }));
  return {
    client,
    tools: async () => (await client.listTools()).tools,
    async call(name, args = {}) {
      const { content, isError = false } = (await client.callTool({ name, arguments: { ...args } })) as Json;
      return { isError, answer: JSON.parse(content[0].text) };
    },
  };
}

/** An answer without the marks of what visitors wrote. */
export function unmarked(value: Json): Json {
  return JSON.parse(JSON.stringify(value), (name, part) => (name === 'writtenByVisitor' ? undefined : part));
}

/** One message, sent as it is; the answer has the headers of the service. */
export async function postMcp(
  url: string,
  secret: string | undefined,
  body: unknown,
  { method = 'POST', headers = {} }: { method?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; headers: Headers; body: Json }> {
  const response = await fetch(`${url}/mcp`, {
    method,
    headers: {
      ...(secret !== undefined && { authorization: `Bearer ${secret}` }),
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) };
}

export const toolCall = (name: string, args: unknown = {}): object => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args },
});

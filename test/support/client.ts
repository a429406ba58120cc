import { request } from 'undici';
import { serviceConformance } from './conformance.ts';

/** What a REST client sees. */
export interface RestResponse<T = Json> {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: T;
}

/** JSON as a test reads it: it says what it expects by what it compares. */
// biome-ignore lint/suspicious/noExplicitAny: an answer has the type that the test asserts
export type Json = any;

export interface GraphQLResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly data: Json;
  readonly errors: { message: string; path?: (string | number)[]; extensions: Json }[] | undefined;
}

export interface RequestOptions {
  readonly headers?: Record<string, string>;
  /** Sent as JSON; a string or bytes are sent as they are. */
  readonly body?: unknown;
}

export interface Client {
  rest(method: string, path: string, options?: RequestOptions): Promise<RestResponse>;
  graphql(query: string, variables?: Record<string, unknown>, options?: RequestOptions): Promise<GraphQLResponse>;
  /** Any body to `/graphql`, answered as it is. */
  post(body: unknown, options?: RequestOptions): Promise<RestResponse>;
}

/**
 * A client on both faces with one credential, or with none. Each REST answer that it sees is held against the
 * service's openapi.json, or that of other routes.
 */
export function clientOf(url: string, secret?: string, conformance = serviceConformance): Client {
  const authorization: Record<string, string> = secret === undefined ? {} : { authorization: `Bearer ${secret}` };

  async function send(method: string, path: string, { headers = {}, body }: RequestOptions): Promise<RestResponse> {
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await request(`${url}${path}`, {
      method: method as 'GET',
      headers: { ...authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? null : raw ? body : JSON.stringify(body),
    });
    const text = await response.body.text();
    const type = String(response.headers['content-type'] ?? '');
    return {
      status: response.statusCode,
      headers: response.headers as Record<string, string>,
      body: text !== '' && type.includes('json') ? JSON.parse(text) : text,
    };
  }

  return {
    async rest(method, path, options = {}) {
      const response = await send(method, `/v1${path}`, options);
      const { status, headers, body } = response;
      const sent = sentJson(options.body);
      conformance().check({ method, path: `/v1${path}`, sent, status, headers, body });
      return response;
    },
    post: (body, options = {}) => send('POST', '/graphql', { ...options, body }),
    async graphql(query, variables, options = {}) {
      const response = await send('POST', '/graphql', { ...options, body: { query, variables } });
      return {
        status: response.status,
        headers: response.headers,
        data: response.body.data,
        errors: response.body.errors,
      };
    },
  };
}

/** The body as the server has read it, if it could. */
function sentJson(body: unknown): unknown {
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) return body;
  try {
    return JSON.parse(Buffer.from(body).toString());
  } catch {
    return undefined;
  }
}

import { isBound, refuseTrustedOnly } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import { answered, type FaceParts, type HttpPlugin } from '../http/plugin.ts';
import { problemReply } from '../http/problem.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Reply } from '../http/respond.ts';
import { lazily } from '../runtime/lazily.ts';
import { version } from '../version.ts';
import { Exchange, type ExchangeOptions } from './exchange.ts';
import { loadProtocol } from './protocol.ts';
import { type Binding, toolsOf } from './tools.ts';
import { markInWords } from './visitor-texts.ts';

const allow = ['POST', 'OPTIONS'];

/** In a message. The library looks at each of them several times, at 12,000 for 50 ms; no tool needs a tenth of these. */
const maxValues = 1_000;

const description = {
  name: 'conversation-service',
  version,
  instructions: `Conversations between the visitors of a site and its agents, with messages, leads, events and statistics. ${markInWords} An error is a problem (RFC 9457) with a \`code\`; the same operations are described at /docs.`,
};

interface McpOptions extends FaceParts {
  readonly bindings: readonly Binding[];
}

/** The Model Context Protocol at `/mcp`, with the same admission as REST: its operations as tools for programs that talk. */
export function useMcp(ports: Ports, { admission, responder, requestLog, bindings }: McpOptions): HttpPlugin {
  // Most servers are never asked for either.
  const load = lazily(async () => {
    const options: ExchangeOptions = { tools: toolsOf(bindings), ports, admission, requestLog };
    return { answer: await loadProtocol(description), options };
  });

  /** Checks in the order of REST: credential, rate limit, method, what the credential may do, body. */
  async function replyTo(http: RequestContext): Promise<Reply> {
    if (http.fault !== undefined) throw http.fault;
    const caller = await admission.admit(http);
    if (http.method === 'OPTIONS') return { status: 204, headers: { Allow: allow.join(', ') } };
    if (http.method !== 'POST') {
      throw new DomainError('METHOD_NOT_ALLOWED', `This path supports ${allow.join(', ')}.`, { allow });
    }
    if (isBound(caller)) throw new DomainError('FORBIDDEN', 'Tokens for pages of visitors cannot call tools.');
    refuseTrustedOnly(caller, 'This token may run registered GraphQL documents, and do nothing else.');
    const message = await http.readJson(admission);
    // A list would be many calls for the price of one; the protocol has had none since 2025-06-18.
    if (typeof message !== 'object' || message === null || Array.isArray(message)) {
      throw new DomainError('BAD_REQUEST', 'Send one JSON-RPC message as a JSON object.');
    }
    if (holdsMore(message, maxValues)) {
      throw new DomainError('BAD_REQUEST', `A message may hold at most ${maxValues} values.`);
    }
    const { answer, options } = await load();
    const exchange = new Exchange(options, http, caller, message);
    const response = await answer(requestOf(http), message, exchange);
    if (exchange.refusal !== undefined) throw exchange.refusal;
    if (response.status >= 400) http.code ??= 'BAD_REQUEST';
    return await replyOf(response);
  }

  return {
    onRequest({ serverContext: { http }, endResponse }) {
      if (http.face !== 'mcp') return undefined;
      return replyTo(http)
        .catch((error: unknown) => problemReply(requestLog.noted(error, http), http))
        .then((reply) => responder.send(http, reply))
        .then(() => endResponse(answered));
    },
  };
}

/** Whether something parsed holds more values than this; what is beyond is not looked at. */
function holdsMore(parsed: object, values: number): boolean {
  let left = values;
  const isTooMuch = (value: unknown): boolean =>
    --left < 0 || (typeof value === 'object' && value !== null && Object.values(value).some(isTooMuch));
  return isTooMuch(parsed);
}

/** The headers that the protocol has. */
const headers = ['content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name'];

function requestOf({ req }: RequestContext): Request {
  const given = headers.flatMap((name): [string, string][] => {
    const value = req.headers[name];
    return typeof value === 'string' ? [[name, value]] : [];
  });
  const { accept = '*/*' } = req.headers;
  // The library looks for both names; who takes anything, as curl does, takes them, too.
  const named = accept.includes('*/*') ? 'application/json, text/event-stream' : accept;
  return new Request('http://localhost/mcp', { method: 'POST', headers: [...given, ['accept', named]] });
}

/** @throws whatever the library did not expect */
async function replyOf(response: Response): Promise<Reply> {
  const { status } = response;
  const type = response.headers.get('content-type');
  const body = await response.text();
  if (status >= 500) throw new Error(`The MCP library answered ${status}: ${body}`);
  return {
    status,
    headers: { 'Cache-Control': 'no-store', ...(type !== null && { 'Content-Type': type }) },
    body: body === '' ? undefined : body,
  };
}

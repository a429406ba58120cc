import { addRoute, createRouter, findRoute } from 'rou3';
import { type Caller, refuseTrustedOnly } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { EventSubscription } from '../domain/events.ts';
import type { Operation } from '../domain/operation.ts';
import type { Ports } from '../domain/ports.ts';
import { enterAnswerRoom } from '../http/answer-room.ts';
import { announcesBody } from '../http/body.ts';
import { isKnown } from '../http/entity-tags.ts';
import { pageReply, publicPathOf } from '../http/page.ts';
import { answered, type FaceParts, type HttpPlugin } from '../http/plugin.ts';
import { problemReply } from '../http/problem.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Reply } from '../http/respond.ts';
import { eventStreamHeaders, openEventStream } from './event-stream.ts';
import { inputOfHeaders } from './headers.ts';
import { type InputReader, inputReader, namingSources } from './input.ts';
import { isPage, pageJson } from './page-json.ts';
import { createPages } from './pages.ts';
import { type Probes, probeRoutes } from './probe-routes.ts';
import type { Answer, Route } from './routes.ts';

const prefix = '/v1';

interface Target {
  readonly route: Route;
  readonly readInput: InputReader;
}

/** The targets of one path, by method. */
type Methods = Map<string, Target>;

interface RestOptions extends FaceParts {
  readonly probes: Probes;
  /** The URL at which clients reach the service; used for its documentation and its links. */
  readonly publicUrl?: string | undefined;
  readonly routes: readonly Route[];
}

/** A page that cannot be longer is serialised at once. */
const shortPageBytes = 1024 * 1024;

/** Answers every request outside of GraphQL: `/v1`, pages and probes that need no credential, and 404 for the rest. */
export function useRest(
  ports: Ports,
  { admission, sessions, timings, log, requestLog, responder, probes, publicUrl, routes }: RestOptions,
): HttpPlugin {
  const publicPath = publicPathOf(publicUrl);
  const pageAt = createPages(routes, publicUrl, publicPath);
  const probeAt = probeRoutes(probes);
  const router = createRouter<Methods>();
  const byPath = new Map<string, Methods>();
  for (const route of routes) {
    let methods = byPath.get(route.path);
    if (methods === undefined) {
      methods = new Map();
      byPath.set(route.path, methods);
      addRoute(router, '', prefix + route.path, methods);
    }
    const target = { route, readInput: inputReader(route) };
    methods.set(route.method, target);
    if (route.method === 'GET' && !route.streams) methods.set('HEAD', target);
  }

  /** Checks in this order: credential, rate limit, path and method, scope, body, operation. */
  async function apiReply(http: RequestContext): Promise<Reply> {
    const caller = await admission.admit(http);
    // The router ignores a trailing slash: a request whose id is missing would be answered with the list.
    const match = http.path.endsWith('/') ? undefined : findRoute(router, '', http.path, { params: true });
    if (match === undefined) throw new DomainError('NOT_FOUND', 'This path does not exist.');
    const target = match.data.get(http.method);
    if (target === undefined) {
      const allow = [...match.data.keys(), 'OPTIONS'];
      if (http.method === 'OPTIONS') return { status: 204, headers: { Allow: allow.join(', ') } };
      throw new DomainError('METHOD_NOT_ALLOWED', `This path supports ${allow.join(', ')}.`, { allow });
    }
    const { route, readInput } = target;
    const { operation } = route;
    http.operation = operation.name;
    refuseTrustedOnly(caller, 'This token may run registered GraphQL documents, and do nothing else.');
    operation.authorise(caller);
    // A body is read even if the operation takes none: its fields have to be refused, not silently ignored.
    const body = announcesBody(http.req) ? await http.readJson(admission) : undefined;
    const { input, faults } = readInput(decodeParams(match.params), http.query, body);
    const inHeaders = inputOfHeaders(http.req, route);
    const found = [...faults, ...inHeaders.faults];
    Object.assign(input, inHeaders.input);
    let replayed = false;
    let leave = (): void => {};
    try {
      const parsed = operation.parse(input, found, caller, ports);
      if (route.itemBytes > 0) {
        const { limit = 0 } = parsed as { limit?: number };
        leave = await enterAnswerRoom(caller, limit * route.itemBytes);
        await admission.refuseLate(http); // it may have waited
      }
      const output = await operation.run(ports, caller, parsed, () => {
        replayed = true;
      });
      if (route.streams) {
        const onError = (cause: unknown): void =>
          log.error({ requestId: http.requestId, traceId: http.traceId, err: cause }, 'event stream failed');
        const text = openEventStream(output as EventSubscription, {
          caller,
          res: http.res,
          sessions,
          timings,
          onError,
        });
        return { status: 200, headers: { ...eventStreamHeaders, ...deprecationHeaders(operation) }, body: text };
      }
      return await replyOf(route, output, () => route.answer(output, caller), { http, caller, replayed, admission });
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw namingSources(error, { route, inHeaders: inHeaders.input, found });
    } finally {
      leave();
    }
  }

  /** Pages and probes, which need no credential. */
  async function publicReply(http: RequestContext): Promise<Reply> {
    const { path, method } = http;
    const page = pageAt(path, http.req.headers['accept-encoding']);
    const answer = probeAt.get(path) ?? (page && (() => pageReply(page, http)));
    if (answer === undefined)
      throw new DomainError('NOT_FOUND', 'This path does not exist; the API is under /v1 and /graphql.');
    http.isProbe = probeAt.has(path);
    const Allow = publicMethods.join(', ');
    if (method === 'OPTIONS') return { status: 204, headers: { Allow } };
    if (!publicMethods.includes(method))
      throw new DomainError('METHOD_NOT_ALLOWED', `This path supports ${Allow}.`, { allow: publicMethods });
    return await answer();
  }

  async function replyTo(http: RequestContext): Promise<Reply> {
    let reply: Reply;
    try {
      if (http.fault !== undefined) throw http.fault;
      reply = await (http.face === 'rest' ? apiReply(http) : publicReply(http));
    } catch (error) {
      reply = problemReply(requestLog.noted(error, http), http);
    }
    if (publicPath !== '') prefixLinks(publicPath, reply.headers);
    return reply;
  }

  return {
    onRequest({ serverContext: { http }, endResponse }) {
      if (http.face !== 'rest' && http.face !== 'page') return undefined;
      return replyTo(http)
        .then((reply) => responder.send(http, reply))
        .then(() => endResponse(answered));
    },
  };
}

/** The methods of paths outside the API. */
const publicMethods = ['GET', 'HEAD', 'OPTIONS'];

/** @throws NOT_FOUND */
function decodeParams(params: Record<string, string> | undefined): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(params ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]));
  } catch {
    throw new DomainError('NOT_FOUND', 'This path does not exist: it is not percent-encoded UTF-8.');
  }
}

interface ReplyOptions extends Pick<FaceParts, 'admission'> {
  readonly http: RequestContext;
  readonly caller: Caller;
  readonly replayed: boolean;
}

/** @param makeAnswer called unless the client has the current version already */
async function replyOf(
  route: Route,
  output: unknown,
  makeAnswer: () => Answer | Promise<Answer>,
  { http, caller, replayed, admission }: ReplyOptions,
): Promise<Reply> {
  const { status, location, version, itemBytes } = route;
  const headers: Record<string, string> = { 'Cache-Control': 'no-store', ...deprecationHeaders(route.operation) };
  if (replayed) headers['Idempotent-Replayed'] = 'true';
  if (location !== undefined) headers['Location'] = location(output);
  if (version !== undefined) {
    const tag = `"${version(output)}"`;
    headers['ETag'] = tag;
    headers['Cache-Control'] = 'private, no-cache'; // clients may cache it, but must revalidate each time
    const isRead = route.method === 'GET';
    if (isRead) headers['Vary'] = 'Authorization'; // a bound token sees less of the same version
    if (isRead && isKnown(http.req.headers['if-none-match'], tag)) return { status: 304, headers };
  }
  const { next, body: value, json, pieces } = await makeAnswer();
  if (next != null) headers['Link'] = `<${nextPage(http, next)}>; rel="next"`;
  const isLong = isPage(value) && value.data.length * itemBytes > shortPageBytes;
  const valid = pieces && admission.whileValid(pieces, caller);
  const body = valid ?? json ?? (isLong ? await pageJson(value, caller) : JSON.stringify(value));
  if (body === undefined) return { status, headers };
  headers['Content-Type'] = 'application/json; charset=utf-8';
  return { status, headers, body };
}

/** The URL of the same list from a cursor on. */
function nextPage({ path, query }: RequestContext, cursor: string): string {
  const parameters = new URLSearchParams(query);
  parameters.delete('offset');
  parameters.set('after', cursor);
  return `${path}?${parameters}`;
}

/** Adds the path under which a proxy exposes the service to the links in a reply. */
function prefixLinks(path: string, headers: Record<string, string>): void {
  if (headers['Location'] !== undefined) headers['Location'] = path + headers['Location'];
  if (headers['Link'] !== undefined) headers['Link'] = headers['Link'].replaceAll('</', `<${path}/`);
}

/** `Deprecation` (RFC 9745) and `Sunset` (RFC 8594), if the operation is deprecated. */
function deprecationHeaders({ deprecated }: Operation): Record<string, string> {
  if (deprecated === undefined) return {};
  const { since, sunset } = deprecated;
  return { Deprecation: `@${Date.parse(since) / 1_000}`, Sunset: new Date(sunset).toUTCString() };
}

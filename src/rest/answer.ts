import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { addRoute, createRouter, findRoute } from 'rou3';
import type { Door } from '../access/admit.ts';
import { announcesBody } from '../access/body.ts';
import { isKnown } from '../access/entity-tags.ts';
import type { Exchange } from '../access/exchange.ts';
import { pageReply } from '../access/page.ts';
import type { Reply } from '../access/respond.ts';
import type { Sessions } from '../access/sessions.ts';
import type { StreamTimings } from '../access/timings.ts';
import { type Deprecation, deprecatedFields } from '../domain/deprecation.ts';
import { DomainError, internal, isTrouble } from '../domain/errors.ts';
import type { EventSubscription } from '../domain/events.ts';
import type { World } from '../domain/ports.ts';
import { eventStreamHeaders, openEventStream } from './event-stream.ts';
import { inputOfHeaders } from './headers.ts';
import { type InputReader, inputReader, namingSources } from './input.ts';
import { createPages } from './pages.ts';
import { type Probes, probeRoutes } from './probe-routes.ts';
import { problemReply } from './problem.ts';
import { type Answer, routes as allRoutes, type Route } from './routes.ts';
import { WrittenJson } from './written-json.ts';

const prefix = '/v1';

interface Target {
  readonly route: Route;
  readonly reader: InputReader;
  readonly deprecated: ReadonlyMap<string, Deprecation>;
}

/** Every path of the API, with what each of its methods does. */
type Methods = Map<string, Target>;

export interface RestOptions {
  readonly door: Door;
  readonly sessions: Sessions;
  readonly timings: StreamTimings;
  readonly log: Logger;
  readonly probes: Probes;
  /** The address that the service is reached at, for its documentation. */
  readonly publicUrl?: string | undefined;
  /** Other routes than the service's own, for tests. */
  readonly routes?: readonly Route[] | undefined;
}

/** Answers everything that is not GraphQL: `/v1`, the pages that need no credential, and 404 for the rest. */
export function answerRest(
  world: World,
  { door, sessions, timings, log, probes, publicUrl, routes = allRoutes }: RestOptions,
): (exchange: Exchange, res: ServerResponse) => Promise<Reply> {
  const publicPath = publicUrl === undefined ? '' : new URL(publicUrl).pathname.replace(/\/$/, '');
  const pageAt = createPages(routes, publicUrl, publicPath);
  const probeAt = probeRoutes(probes);
  const json = new WrittenJson();
  const router = createRouter<Methods>();
  const byPath = new Map<string, Methods>();
  for (const route of routes) {
    let methods = byPath.get(route.path);
    if (methods === undefined) {
      methods = new Map();
      byPath.set(route.path, methods);
      addRoute(router, '', prefix + route.path, methods);
    }
    const target = { route, reader: inputReader(route), deprecated: deprecatedFields(route.operation.input) };
    methods.set(route.method, target);
    if (route.method === 'GET' && !route.streams) methods.set('HEAD', target);
  }

  /** In the order of the contract, after the preflights: credential, rate limit, path and method, scope, body, operation. */
  async function reply(exchange: Exchange, res: ServerResponse): Promise<Reply> {
    const caller = await exchange.admit(door);
    // The router would overlook a slash at the end, and a forgotten id would be answered with the list.
    const match = exchange.path.endsWith('/') ? undefined : findRoute(router, '', exchange.path, { params: true });
    if (match === undefined) throw new DomainError('NOT_FOUND', 'There is nothing at this path.');
    const target = match.data.get(exchange.method);
    if (target === undefined) {
      const allow = [...match.data.keys(), 'OPTIONS'];
      if (exchange.method === 'OPTIONS') return { status: 204, headers: { Allow: allow.join(', ') } };
      throw new DomainError('METHOD_NOT_ALLOWED', `This path knows ${allow.join(', ')}.`, { allow });
    }
    const { route, reader } = target;
    const { operation } = route;
    exchange.operation = operation.name;
    if (operation.deprecated !== undefined) exchange.deprecation = operation.deprecated;
    operation.authorise(caller);
    // One that takes no body is read all the same: what is asked of a deletion or a list must not be passed over.
    const body = announcesBody(exchange.req) ? await exchange.readJson() : undefined;
    const { input, faults } = reader.read(decodeParams(match.params), exchange.query, body);
    const inHeaders = inputOfHeaders(exchange.req, route);
    const found = [...faults, ...inHeaders.faults];
    Object.assign(input, inHeaders.input);
    const deprecation = soonest(target.deprecated, input);
    if (deprecation !== undefined) exchange.deprecation ??= deprecation;
    let replayed = false;
    try {
      const parsed = operation.parse(input, found);
      const output = await operation.run(world, caller, parsed, () => {
        replayed = true;
      });
      if (route.streams) {
        const onError = (cause: unknown): void =>
          log.error({ requestId: exchange.requestId, traceId: exchange.traceId, err: cause }, 'event stream failed');
        const text = openEventStream(output as EventSubscription, { caller, res, sessions, timings, onError });
        return { status: 200, headers: { ...eventStreamHeaders }, body: text };
      }
      return replyOf(route, output, await route.answer(output, { caller, json }), exchange, replayed);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      throw namingSources(error, { route, inHeaders: inHeaders.input, found });
    }
  }

  /** What needs no credential. */
  async function outside(exchange: Exchange): Promise<Reply> {
    const { path, method } = exchange;
    const page = pageAt(path);
    const answer = probeAt.get(path) ?? (page && (() => pageReply(page, exchange)));
    if (answer === undefined)
      throw new DomainError('NOT_FOUND', 'There is nothing at this path; the API is under /v1 and /graphql.');
    exchange.isProbe = probeAt.has(path);
    const Allow = allowedOutside.join(', ');
    if (method === 'OPTIONS') return { status: 204, headers: { Allow } };
    if (!allowedOutside.includes(method))
      throw new DomainError('METHOD_NOT_ALLOWED', `This path knows ${Allow}.`, { allow: allowedOutside });
    return await answer();
  }

  function refusal(error: unknown, exchange: Exchange): Reply {
    const known = error instanceof DomainError ? error : internal(error);
    exchange.code = known.code;
    exchange.isOneOfMany = known.facts.isToldInSum === true;
    if (isTrouble(known)) {
      const { requestId, traceId } = exchange;
      log.error({ requestId, traceId, err: known.cause ?? known }, 'request failed');
    }
    return problemReply(known, exchange);
  }

  return async (exchange, res) => {
    let result: Reply;
    try {
      result = await (isUnder(prefix, exchange.path) ? reply(exchange, res) : outside(exchange));
    } catch (error) {
      result = refusal(error, exchange);
    }
    if (exchange.deprecation !== undefined) addDeprecation(result.headers, exchange.deprecation, exchange.operation);
    if (publicPath !== '') leadUnder(publicPath, result.headers);
    return result;
  };
}

function isUnder(base: string, path: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}

/** What the paths outside the API know. */
const allowedOutside = ['GET', 'HEAD', 'OPTIONS'];

function decodeParams(params: Record<string, string> | undefined): Record<string, string> {
  return Object.fromEntries(
    Object.entries(params ?? {}).map(([name, value]) => {
      try {
        return [name, decodeURIComponent(value)];
      } catch {
        return [name, value]; // no id has such a form, so it is not found
      }
    }),
  );
}

function replyOf(route: Route, output: unknown, answer: Answer, exchange: Exchange, replayed: boolean): Reply {
  const { status, location, version } = route;
  const headers: Record<string, string> = { 'Cache-Control': 'no-store' };
  if (replayed) headers['Idempotent-Replayed'] = 'true';
  if (location !== undefined) headers['Location'] = location(output);
  if (answer.next != null) headers['Link'] = `<${nextPage(exchange, answer.next)}>; rel="next"`;
  if (version !== undefined) {
    const tag = `"${version(output)}"`;
    headers['ETag'] = tag;
    headers['Cache-Control'] = 'private, no-cache'; // it may be kept, and has to be asked about each time
    const isRead = route.method === 'GET';
    if (isRead) headers['Vary'] = 'Authorization'; // a token of one conversation is shown less of the same version
    if (isRead && isKnown(exchange.req.headers['if-none-match'], tag)) return { status: 304, headers };
  }
  if (answer.body === undefined && answer.json === undefined) return { status, headers };
  const body = answer.json ?? JSON.stringify(answer.body);
  headers['Content-Type'] = 'application/json; charset=utf-8';
  return { status, headers, body };
}

/** The same list, continued from a cursor. */
function nextPage({ path, query }: Exchange, cursor: string): string {
  const parameters = new URLSearchParams(query);
  parameters.delete('offset');
  parameters.set('after', cursor);
  return `${path}?${parameters}`;
}

/** Has what an answer refers to lead to where the service is reached, when a proxy has it under a path of its own. */
function leadUnder(path: string, headers: Record<string, string>): void {
  if (headers['Location'] !== undefined) headers['Location'] = path + headers['Location'];
  if (headers['Link'] !== undefined) headers['Link'] = headers['Link'].replaceAll('</', `<${path}/`);
}

/** Of the deprecated fields that an input uses, what is said of the one that is gone first. */
function soonest(deprecated: ReadonlyMap<string, Deprecation>, input: object): Deprecation | undefined {
  const used = [...deprecated].flatMap(([name, deprecation]) => (Object.hasOwn(input, name) ? [deprecation] : []));
  return used.sort((a, b) => a.sunset.localeCompare(b.sunset))[0];
}

/** RFC 9745 and RFC 8594: since when it is deprecated, from when on it may be gone, and where that is explained. */
function addDeprecation(headers: Record<string, string>, { since, sunset }: Deprecation, operation = ''): void {
  headers['Deprecation'] = `@${Date.parse(since) / 1_000}`;
  headers['Sunset'] = new Date(sunset).toUTCString();
  const link = `</docs#${operation}>; rel="deprecation"; type="text/html"`;
  headers['Link'] = headers['Link'] === undefined ? link : `${headers['Link']}, ${link}`;
}

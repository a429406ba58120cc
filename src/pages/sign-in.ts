import type { Origins } from '../access/origins.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import { signIn, signOut } from '../domain/sign-ins.ts';
import { timestamp } from '../domain/time.ts';
import { createToken } from '../domain/tokens.ts';
import { announcesBody } from '../http/body.ts';
import { publicPathOf } from '../http/page.ts';
import { answered, type FaceParts, type HttpPlugin } from '../http/plugin.ts';
import { problemReply } from '../http/problem.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Reply } from '../http/respond.ts';

// The service's own pages ask for an API key once. They get a cookie in its place, which no script can read and which
// gives out short-lived tokens; these are what the pages call with, and keep in memory alone.

const sessionPath = '/console/session';
const cookieName = 'conversation_console';
/** 256 bits in base64url. */
const secretForm = /^[\w-]{43}$/;

interface SignInOptions extends FaceParts {
  readonly origins: Origins;
  readonly publicUrl?: string | undefined;
}

/** Signing in and out of the service's own pages, and the tokens that these call with. */
export function useSignIn(
  ports: Ports,
  { admission, origins, responder, requestLog, publicUrl }: SignInOptions,
): HttpPlugin {
  const cookiePath = publicPathOf(publicUrl) + sessionPath;

  /** @param value with which the browser is to call from now on, for so many seconds */
  function cookie(http: RequestContext, value: string, maxAgeSeconds: number): string {
    const isSecure = http.req.headers.origin?.startsWith('https:');
    const attributes = [`Max-Age=${maxAgeSeconds}`, `Path=${cookiePath}`, 'HttpOnly', 'SameSite=Strict'];
    return [`${cookieName}=${value}`, ...attributes, ...(isSecure ? ['Secure'] : [])].join('; ');
  }

  async function start(http: RequestContext): Promise<Reply> {
    const caller = await admission.admit(http);
    if (caller.credential !== 'key') throw new DomainError('FORBIDDEN', 'Sign in with an API key.');
    await refuseBody(http);
    const { secret, expiresAtMs } = await signIn(ports, caller);
    const seconds = Math.floor((expiresAtMs - ports.clock.now()) / 1_000);
    return json({ expiresAt: timestamp(expiresAtMs) }, { 'Set-Cookie': cookie(http, secret, seconds) });
  }

  async function giveToken(http: RequestContext): Promise<Reply> {
    http.signIn = { secret: secretOf(http) };
    http.operation = createToken.name;
    const caller = await admission.admit(http);
    await refuseBody(http);
    createToken.authorise(caller);
    const { token } = await createToken.run(
      ports,
      caller,
      createToken.parse({ scopes: [...caller.scopes] }, [], caller),
    );
    return json(token);
  }

  async function end(http: RequestContext): Promise<Reply> {
    const secret = secretOf(http);
    if (secret !== undefined) await signOut(ports, secret);
    return { status: 204, headers: { 'Cache-Control': 'no-store', 'Set-Cookie': cookie(http, '', 0) } };
  }

  async function refuseBody(http: RequestContext): Promise<void> {
    if (!announcesBody(http.req) || (await http.readJson(admission)) === undefined) return;
    throw new DomainError(
      'BAD_REQUEST',
      'This request takes no body; the API key is sent as `Authorization: Bearer …`.',
    );
  }

  const handlers: Readonly<Record<string, Readonly<Record<string, (http: RequestContext) => Promise<Reply>>>>> = {
    [sessionPath]: { POST: start, DELETE: end },
    [`${sessionPath}/token`]: { POST: giveToken },
  };

  async function replyTo(http: RequestContext, methods: (typeof handlers)[string]): Promise<Reply> {
    if (http.fault !== undefined) throw http.fault;
    const allow = [...Object.keys(methods), 'OPTIONS'];
    if (http.method === 'OPTIONS') return { status: 204, headers: { Allow: allow.join(', ') } };
    const handler = methods[http.method];
    if (handler === undefined) {
      throw new DomainError('METHOD_NOT_ALLOWED', `This path supports ${allow.join(', ')}.`, { allow });
    }
    if (!origins.isOwn(http.arrival)) throw new DomainError('FORBIDDEN', 'Only pages of the service itself sign in.');
    return await handler(http);
  }

  return {
    onRequest({ serverContext: { http }, endResponse }) {
      const methods = Object.hasOwn(handlers, http.path) ? handlers[http.path] : undefined;
      if (methods === undefined) return undefined;
      return replyTo(http, methods)
        .catch((error: unknown) => problemReply(requestLog.noted(error, http), http))
        .then((reply) => responder.send(http, reply))
        .then(() => endResponse(answered));
    },
  };
}

/** What the console's cookie holds, if that can be what it was given. */
function secretOf({ req }: RequestContext): string | undefined {
  const pairs = (req.headers.cookie ?? '').split(';').map((pair) => pair.trim());
  const value = pairs.find((pair) => pair.startsWith(`${cookieName}=`))?.slice(cookieName.length + 1);
  return value !== undefined && secretForm.test(value) ? value : undefined;
}

function json(value: object, headers: Readonly<Record<string, string>> = {}): Reply {
  return {
    status: 201,
    headers: { 'Cache-Control': 'no-store', 'Content-Type': 'application/json; charset=utf-8', ...headers },
    body: JSON.stringify(value),
  };
}

import { claimsOf } from '../client/claims.ts';
import { Client, ServiceError, type Token } from '../client/index.ts';

// Who uses the console, and the client that calls for them. The API key is sent once, when signing in: from then on the
// browser has a cookie that no script can read, which gives out tokens of fifteen minutes. These are in memory alone.

/** Where the service is: the script is in `/assets` of it. */
export const service = new URL('..', import.meta.url).href.replace(/\/$/, '');

/** How the person appears to others: as author, assignee and reader. It is no credential. */
export interface Agent {
  readonly id: string;
  readonly name: string;
}

/** What the id of an agent, who is a reader, may have. */
export const agentIdPattern = '[A-Za-z0-9_.:@+\\-]{1,128}';

/** Where the browser remembers the agent. */
const agentItem = 'conversation-console-agent';

/** Where it remembers that somebody has signed in: otherwise there is nothing to ask the service for. */
export const signedInItem = 'conversation-console-signed-in';

/** How long a call waits for a service that is away before its view says so. */
const maxWaitSeconds = 15;

export interface Session {
  readonly client: Client;
  readonly agent: Agent;
  /** What the key allows, such as `conversations:read`. */
  readonly scopes: readonly string[];
}

interface GivenToken extends Token {
  readonly scopes: readonly string[];
}

/** Called when the session ends by itself, with what to tell the person. */
export type OnEnd = (why: string) => void;

const whyEnded =
  'The session has ended: its API key was revoked or has expired, or somebody signed in twelve hours ago. Sign in again.';

/** The cookie is another account's by now. */
class OtherAccount extends ServiceError {
  constructor() {
    const advice = 'Reload the page to go on with that, or sign in again.';
    super(`Somebody has signed in to another account in this browser. ${advice}`, { code: 'UNAUTHENTICATED' });
  }
}

/**
 * Signs in with an API key.
 * @throws Error with what to tell the person
 */
export async function signIn(apiKey: string, agent: Agent, onEnd: OnEnd): Promise<Session> {
  const response = await ask('POST', '', { Authorization: `Bearer ${apiKey}` });
  if (!response.ok) throw await refusalOf(response);
  localStorage.setItem(agentItem, JSON.stringify(agent));
  localStorage.setItem(signedInItem, 'true');
  return sessionOf(agent, await newToken(), onEnd);
}

/**
 * The session of before a reload; undefined if nobody has signed in.
 * @throws Error if the service cannot say
 */
export async function resume(onEnd: OnEnd): Promise<Session | undefined> {
  if (localStorage.getItem(signedInItem) === null) return undefined;
  try {
    return sessionOf(knownAgent(), await newToken(), onEnd);
  } catch (error) {
    if (!isOver(error)) throw error;
    localStorage.removeItem(signedInItem);
    return undefined;
  }
}

export async function signOut(): Promise<void> {
  const response = await ask('DELETE', '');
  if (!response.ok) throw await refusalOf(response);
  localStorage.removeItem(signedInItem);
}

/** The agent whom this browser remembers. */
export function knownAgent(): Agent {
  try {
    const { id, name } = JSON.parse(localStorage.getItem(agentItem) ?? '{}');
    if (typeof name === 'string' && new RegExp(`^${agentIdPattern}$`).test(id)) return { id, name };
  } catch {
    // Something else has been stored there.
  }
  return { id: 'agent-1', name: 'Agent' };
}

function sessionOf(agent: Agent, first: GivenToken, onEnd: OnEnd): Session {
  const tokens = tokensFrom(first);
  const credential = async (): Promise<Token> => {
    try {
      return await tokens();
    } catch (error) {
      if (isOver(error)) onEnd(error instanceof OtherAccount ? error.message : whyEnded);
      throw error;
    }
  };
  return { client: new Client({ url: service, credential, maxWaitSeconds }), agent, scopes: first.scopes };
}

/** What gets the tokens of a session: the first one, and from then on others for the same account, whoever signs in. */
export function tokensFrom(first: GivenToken): () => Promise<GivenToken> {
  const accountOf = ({ token }: GivenToken): unknown => claimsOf(token)?.['account'];
  let next: GivenToken | undefined = first;
  return async () => {
    const given = next ?? (await newToken());
    next = undefined;
    if (accountOf(given) !== accountOf(first)) throw new OtherAccount();
    return given;
  };
}

/** @throws ServiceError if nobody has signed in, or no longer */
export async function newToken(): Promise<GivenToken> {
  const response = await ask('POST', '/token');
  if (!response.ok) throw await refusalOf(response);
  return await response.json();
}

const isOver = (error: unknown): error is ServiceError =>
  error instanceof ServiceError && error.code === 'UNAUTHENTICATED';

async function ask(method: 'POST' | 'DELETE', path: string, headers: Record<string, string> = {}): Promise<Response> {
  try {
    return await fetch(`${service}/console/session${path}`, { method, headers });
  } catch {
    throw new Error('The service cannot be reached.');
  }
}

/** A refusal: of a kind that the client does not repeat, unless the service is away. */
async function refusalOf(response: Response): Promise<Error> {
  const { code, detail } = await response.json().catch(() => ({}));
  const words = detail ?? `The service answers ${response.status}.`;
  return code === undefined || code === 'UNAVAILABLE' ? new Error(words) : new ServiceError(words, { code });
}

import { Client } from '../client/index.ts';

// Who uses the console, and the client that calls for them. The API key is sent once, when signing in: from then on the
// browser has a cookie that no script can read, which gives out tokens of fifteen minutes. These are in memory alone.

/** Where the service is: the script is at `/console/app.js` of it. */
export const service = new URL('..', import.meta.url).href.replace(/\/$/, '');

/** How the person appears to others: as author, assignee and reader. It is no credential. */
export interface Agent {
  readonly id: string;
  readonly name: string;
}

/** Where the browser remembers the agent. */
const agentItem = 'conversation-console-agent';

export interface Session {
  readonly client: Client;
  readonly agent: Agent;
}

/**
 * Signs in with an API key.
 * @param onEnd called when the session ends: its key was revoked, say, or the twelve hours are over
 * @throws Error with what to tell the person
 */
export async function signIn(apiKey: string, agent: Agent, onEnd: () => void): Promise<Session> {
  const response = await ask('POST', '', { Authorization: `Bearer ${apiKey}` });
  if (!response.ok) throw await refusalOf(response);
  localStorage.setItem(agentItem, JSON.stringify(agent));
  return sessionOf(agent, onEnd);
}

/**
 * The session of before a reload; undefined if nobody has signed in.
 * @throws Error if the service cannot say
 */
export async function resume(onEnd: () => void): Promise<Session | undefined> {
  const response = await ask('POST', '/token');
  if (response.status === 401) return undefined;
  if (!response.ok) throw await refusalOf(response);
  return sessionOf(knownAgent(), onEnd);
}

export async function signOut(): Promise<void> {
  await ask('DELETE', '');
}

/** The agent whom this browser remembers. */
export function knownAgent(): Agent {
  try {
    const { id, name } = JSON.parse(localStorage.getItem(agentItem) ?? '{}');
    if (typeof id === 'string' && typeof name === 'string') return { id, name };
  } catch {
    // Something else has been stored there.
  }
  return { id: 'agent-1', name: 'Agent' };
}

function sessionOf(agent: Agent, onEnd: () => void): Session {
  const credential = async (): Promise<{ token: string; expiresAt: string }> => {
    const response = await ask('POST', '/token');
    if (response.status === 401) onEnd();
    if (!response.ok) throw await refusalOf(response);
    return await response.json();
  };
  return { client: new Client({ url: service, credential }), agent };
}

function ask(method: 'POST' | 'DELETE', path: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${service}/console/session${path}`, { method, headers });
}

async function refusalOf(response: Response): Promise<Error> {
  const problem = await response.json().catch(() => ({}));
  return new Error(problem.detail ?? `The service answers ${response.status}.`);
}

import { nth, send, sendInTurn, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { manyConversations } from './preparations.ts';
import type { Attack } from './table.ts';

// Attacks at `/mcp`, by both revisions of its protocol.

const revision = '2026-07-28';
const accept = { Accept: 'application/json, text/event-stream' };

interface Call {
  readonly name: string;
  readonly args?: object;
  readonly meta?: object;
}

/** Calls of a tool, as clients of the one revision send them and of the other. */
function callBytes(target: Target, { name, args = {}, meta }: Call): Buffer[] {
  const about = {
    'io.modelcontextprotocol/protocolVersion': revision,
    'io.modelcontextprotocol/clientInfo': { name: 'attacker', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const headers = { 'MCP-Protocol-Version': revision, 'MCP-Method': 'tools/call', 'MCP-Name': name };
  const bytes = (withMeta: object | undefined, more: Record<string, string>): Buffer => {
    const params = { name, arguments: args, ...(withMeta !== undefined && { _meta: withMeta }) };
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    return requestBytes('POST', '/mcp', { ...target, body, headers: { ...accept, ...more } });
  };
  return [bytes(meta, {}), bytes({ ...about, ...meta }, headers)];
}

/** So many keys that fill a body of 1 MiB. */
function keys(count: number): object {
  const value = 'x'.repeat(Math.floor(1_000_000 / count) - 12);
  return Object.fromEntries(times(count, (index) => [`k${index}`, value]));
}

/** As many as any body may have, and as a message may. */
const manyKeys = [keys(11_970), keys(970)];

export const mcpAttacks: Attack[] = [
  {
    name: 'calls of tools with 1 MiB of keys',
    limits: 'raised',
    withOtherLimits: true,
    isShort: true,
    attack: (target) => {
      const calls = manyKeys.flatMap((meta) => callBytes(target, { name: 'getAccount', meta }));
      const requests = target.limits === 'trial' ? 99 : target.isLong ? 600 : 8;
      return send(target, { connections: 32, requests }, (index) => nth(calls, index));
    },
  },
  {
    name: 'calls of tools with large answers, side by side',
    limits: 'raised',
    prepare: manyConversations,
    attack: (target) =>
      sendInTurn(
        target,
        [
          { name: 'listConversations', args: { limit: 100 } },
          { name: 'listEvents', args: { limit: 100 } },
          { name: 'search', args: { q: 'where', limit: 100 } },
          { name: 'getAnalytics', args: { interval: 'hour' } },
        ].flatMap((call) => callBytes(target, call)),
      ),
  },
];

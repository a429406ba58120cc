import type { Tool as Description } from '@modelcontextprotocol/server';
import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Operation } from '../domain/operation.ts';
import type { OperationName } from '../domain/operations.ts';
import type { Ports } from '../domain/ports.ts';
import { enterAnswerRoom } from '../http/answer-room.ts';
import { jsonSchemaOf } from '../http/json-schema.ts';
import { noRoom } from '../http/no-room.ts';
import { Room } from '../runtime/room.ts';
import { scheduler } from '../runtime/scheduler.ts';
import { marked, markInWords } from './visitor-texts.ts';

/** What REST binds of an operation: the tool of the same name answers with the same JSON. */
export interface Binding {
  readonly method: string;
  readonly operation: Operation;
  /** What each item of a page can take of memory while the page is made, in bytes; 0 for what is no page. */
  readonly itemBytes: number;
  answer(output: unknown, caller: Caller): Answer | Promise<Answer>;
}

/** The body of an answer, in one of three forms. */
interface Answer {
  readonly body?: unknown;
  readonly json?: string;
  readonly pieces?: AsyncIterable<string>;
}

/**
 * Which operations are tools. Those are not that give out, change or revoke credentials and secrets, decide what pages may
 * run or who is told of what, or delete: a text that a visitor writes must not talk a model into them. Nor are streams.
 */
const isTool: Readonly<Record<OperationName, boolean>> = {
  listConversations: true,
  getConversation: true,
  createConversation: true,
  updateConversation: true,
  listMessages: true,
  sendMessage: true,
  getMessage: true,
  markRead: true,
  search: true,
  deleteConversation: false,
  captureLead: true,
  listLeads: true,
  getLead: true,
  listEvents: true,
  streamEvents: false,
  createWebhook: false,
  listWebhooks: false,
  getWebhook: false,
  updateWebhook: false,
  deleteWebhook: false,
  rotateWebhookSecret: false,
  testWebhook: false,
  recoverWebhook: false,
  listDeliveries: false,
  getDelivery: false,
  redeliver: false,
  getAnalytics: true,
  getAccount: true,
  createApiKey: false,
  listApiKeys: true,
  revokeApiKey: false,
  createToken: false,
  registerDocuments: false,
  listDocuments: true,
  deleteDocument: false,
};

/** Tools whose answers hold nothing that visitors wrote. */
const withoutTexts: readonly string[] = ['markRead', 'getAnalytics', 'getAccount', 'listApiKeys', 'listDocuments'];

export interface Tool {
  readonly binding: Binding;
  /** As clients are shown it. */
  readonly description: Description;
}

/** The tools by name. */
export function toolsOf(bindings: readonly Binding[]): ReadonlyMap<string, Tool> {
  const bound = bindings.filter(
    ({ operation: { name } }) => Object.hasOwn(isTool, name) && isTool[name as OperationName],
  );
  return new Map(bound.map((binding) => [binding.operation.name, toolOf(binding)]));
}

function toolOf(binding: Binding): Tool {
  const { method, operation } = binding;
  const { name, summary } = operation;
  // Models' interfaces refuse combinations of schemas at the top; the descriptions of the fields say the same.
  const { allOf: _, ...inputSchema } = jsonSchemaOf(operation.input, 'input');
  const isChange = method === 'PATCH';
  return {
    binding,
    description: {
      name,
      description: withoutTexts.includes(name) ? summary : `${summary} ${markInWords}`,
      inputSchema: inputSchema as Description['inputSchema'],
      annotations: {
        readOnlyHint: method === 'GET',
        ...(method !== 'GET' && { destructiveHint: isChange, idempotentHint: isChange || method === 'PUT' }),
        openWorldHint: false,
      },
    },
  };
}

/** The tools that a caller may call. */
export function toolsFor({ scopes }: Caller, tools: ReadonlyMap<string, Tool>): readonly Tool[] {
  return [...tools.values()].filter(({ binding: { operation } }) => {
    const { scope } = operation;
    return scope === 'any' || scopes.has(scope);
  });
}

/** The most that an answer may hold, in bytes: it has to be made at once, and no model reads so much. */
const maxBytes = 1024 * 1024;
/** An answer longer than this takes so long to make that it waits for its account's turn. */
const largeBytes = 64 * 1024;

/** A call of a tool. */
interface Call {
  readonly ports: Ports;
  readonly caller: Caller;
  readonly given: object;
  /** Called when the call has waited. @throws for one whose client has gone, or whose credential has ended */
  refuseLate(): Promise<void>;
}

/** How many calls for one thing are under way at the same time: each can hold some megabytes. */
const room = new Room({ size: 128, sizeOfAccount: 4, waitingOfAccount: 256 });

/** @throws UNAVAILABLE when too many of the account wait */
async function enterCall(accountId: string): Promise<() => void> {
  const leave = await room.enter(accountId, 1);
  if (leave === undefined) throw noRoom('Too many calls of the account are waiting; send this one again.');
  return leave;
}

/**
 * Calls a tool.
 * @returns its answer as JSON
 * @throws DomainError as the operation; QUERY_TOO_COMPLEX when the answer is too long
 */
export async function callTool({ binding }: Tool, { ports, caller, given, refuseLate }: Call): Promise<string> {
  const { method, operation, itemBytes } = binding;
  operation.authorise(caller);
  const input = operation.parse(given, [], caller, ports);
  const { limit = 0 } = input as { limit?: number };
  const accountId = caller.account.id;
  // A page is read whole before it is known to be too long. It waits for memory alone: those that do keep nobody's place.
  const leave = await (itemBytes > 0 ? enterAnswerRoom(caller, limit * itemBytes) : enterCall(accountId));
  try {
    if (method !== 'GET') await scheduler.request(accountId, false); // it was admitted as what reads is
    await refuseLate();
    const output = await operation.run(ports, caller, input);
    const { body, json, pieces } = await binding.answer(output, caller);
    const text = pieces === undefined ? (json ?? JSON.stringify(body ?? null)) : await joined(pieces);
    refuseLong(text);
    if (text.length > largeBytes) await scheduler.step(accountId);
    return JSON.stringify(marked(JSON.parse(text)));
  } finally {
    leave();
  }
}

/** @throws QUERY_TOO_COMPLEX as soon as there is too much */
async function joined(pieces: AsyncIterable<string>): Promise<string> {
  let text = '';
  for await (const piece of pieces) {
    text += piece;
    refuseLong(text);
  }
  return text;
}

function refuseLong(text: string): void {
  if (text.length <= maxBytes / 3 || Buffer.byteLength(text) <= maxBytes) return;
  throw new DomainError(
    'QUERY_TOO_COMPLEX',
    'The answer would hold more than 1 MiB; ask for a smaller page with `limit`, or for fewer messages with `messages`.',
  );
}

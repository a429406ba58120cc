import type { Json } from '../support/client.ts';
import type { TestAccount } from '../support/server.ts';

/** One thing that is done through both faces, and what has to come of it. */
export interface Case {
  readonly name: string;
  /** Makes what the case needs, over REST; its results are handed to the two requests. */
  readonly given?: (client: TestAccount) => Promise<Json>;
  /** Whether it changes nothing, so that all of the same `given` can read what was made once. */
  readonly isReading?: true;
  readonly rest: (given: Json) => [method: string, path: string, body?: unknown, headers?: Record<string, string>];
  readonly graphql: (given: Json) => [query: string, variables?: Record<string, unknown>];
  /** The status of the REST answer, or the code that both faces give. */
  readonly expected: number | string;
  /** The faults that both faces point at, for `VALIDATION_FAILED`. */
  readonly pointers?: string[];
  /** The types of the events that it causes. */
  readonly events?: string[];
  /** What is asked of the result besides being the same. */
  readonly check?: (resource: Json) => void;
}

export const unknownConversation = 'conv_01m7yzcf3tfz1aan3df712nas7';

export const visitorSays = (content: string) => ({ content, sender: 'visitor' });

export async function create(client: TestAccount, body: object = {}): Promise<Json> {
  return (await client.rest('POST', '/conversations', { body })).body;
}

export async function change(client: TestAccount, id: string, body: object): Promise<Json> {
  return (await client.rest('PATCH', `/conversations/${id}`, { body })).body;
}

export async function closed(client: TestAccount): Promise<Json> {
  const { id } = await create(client);
  return await change(client, id, { status: 'closed' });
}

/** GraphQL spells the values of enumerations in capitals. */
export const capitals = (input: Json): Json => ({
  ...input,
  ...(input.status == null ? {} : { status: input.status.toUpperCase() }),
  ...(input.sender == null ? {} : { sender: input.sender.toUpperCase() }),
  ...(input.message == null ? {} : { message: capitals(input.message) }),
});

export const listArguments: Record<string, string> = { limit: 'first' };

export type Statuses = string | readonly string[];

/** A filter by status as an argument: one status and several have different names. */
export function statusArgument(status: Statuses): string {
  return typeof status === 'string'
    ? `status: ${status.toUpperCase()}`
    : `statuses: [${status.map((each) => each.toUpperCase()).join(', ')}]`;
}

export async function capture(client: TestAccount, body: object): Promise<Json> {
  return (await client.rest('POST', '/leads', { body })).body;
}

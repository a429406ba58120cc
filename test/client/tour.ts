import type * as Own from '../../src/client/index.ts';

// What a program or a page does with the client. It runs in Node and in a browser, so it imports nothing but types.

type Library = typeof Own;

export interface Access {
  /** The service. */
  readonly url: string;
  /** Where the own server of a page gives out tokens. */
  readonly tokenUrl: string;
}

function clientOf({ Client }: Library, { url, tokenUrl }: Access): Own.Client {
  return new Client({ url, credential: async () => (await fetch(tokenUrl, { method: 'POST' })).json() });
}

/** @returns what it has seen, as JSON that is the same each time */
export async function tour(own: Library, access: Access): Promise<object> {
  const client = clientOf(own, access);
  const { eventCursor } = await client.call('getAccount');
  const refusalOf = async (call: Promise<unknown>) => {
    const error = await call.catch((thrown: unknown) => thrown);
    if (!(error instanceof own.ServiceError)) return String(error);
    const { code, status, requestId, errors } = error;
    return { code, status, isTraced: requestId !== undefined, pointers: errors.map(({ pointer }) => pointer) };
  };

  const { id, version } = await client.call('createConversation', {
    subject: 'Parcel',
    tags: ['a b', 'urgent'],
    message: { sender: 'visitor', content: 'Where is it?' },
  });
  const sent = await client.call('sendMessage', { conversationId: id, sender: 'agent', content: 'Here.' });
  const { tags } = await client.call('updateConversation', { id, addTags: ['late'] }, { ifVersion: version + 1 });
  const listed = await client.call('listConversations', { tags: ['a b', 'late'], status: ['active'], limit: 5 });
  const read = await client.call('markRead', { conversationId: id, reader: 'agent-1', sequence: 2 });

  const query = 'query ($id: ID!) { conversation(id: $id) { __typename id version subject } }';
  const ask = () => client.graphql<{ conversation: { version: number; subject: string } }>(query, { id });
  const older = await ask();
  await client.call('updateConversation', { id, subject: 'Parcel 1042' });
  const newer = await ask();
  const newest = own.newestOnly();
  const shown = [newer, older].map((answer) => newest(answer).conversation.subject);

  const made = [id];
  while (made.length < 7) made.push((await client.call('createConversation', {})).id);
  const found: string[] = [];
  for await (const each of client.list('listConversations', { limit: 3, sort: 'createdAt' })) found.push(each.id);
  const sequences: number[] = [];
  for await (const { sequence } of client.list('listEvents', { after: eventCursor, limit: 2 })) {
    sequences.push(sequence ?? 0);
  }

  return {
    sequence: sent.sequence,
    tags,
    isListed: listed.data.length === 1 && listed.data[0]?.id === id,
    read: read.sequence,
    shown,
    areAllListed: made.join() === found.join(),
    gaps: sequences.filter((sequence, index) => sequence !== index + 1),
    events: sequences.length,
    refusals: [
      await refusalOf(client.call('captureLead', { phone: '' })),
      await refusalOf(client.call('getConversation', { id: 'conv_1' })),
      await refusalOf(client.call('updateConversation', { id, subject: 'Late' }, { ifVersion: version })),
      await refusalOf(client.graphql('{ conversation(id: "conv_1") { id } }')),
      await refusalOf(client.graphql('{ nothing }')),
    ],
    deleted: String(await client.call('deleteConversation', { id })),
  };
}

const refused = (code: string, status: number | undefined, ...pointers: string[]) => ({
  code,
  status,
  isTraced: true,
  pointers,
});

/** What the tour sees in an account that is new. */
export const seen = {
  sequence: 2,
  tags: ['a b', 'late', 'urgent'],
  isListed: true,
  read: 2,
  shown: ['Parcel 1042', 'Parcel 1042'],
  areAllListed: true,
  gaps: [],
  events: 13,
  refusals: [
    refused('VALIDATION_FAILED', 400, '/phone'),
    refused('NOT_FOUND', 404),
    refused('VERSION_CONFLICT', 412),
    refused('NOT_FOUND', undefined),
    refused('VALIDATION_FAILED', 400),
  ],
  deleted: 'undefined',
};

export type Over = 'stream' | 'socket';

export interface Following extends Access {
  readonly over: Over;
  readonly after: string;
}

/** Follows the events. @returns what stops it */
export function follow(own: Library, { over, after, ...access }: Following, heard: (id: string) => void): () => void {
  const stop = new AbortController();
  const client = clientOf(own, access);
  const options = { after, signal: stop.signal };
  const events = over === 'stream' ? client.follow(options) : client.follow({ ...options, over });
  const following = async (): Promise<void> => {
    for await (const { id } of events) heard(id);
  };
  following().catch((error: unknown) => {
    if (!stop.signal.aborted) heard(String(error));
  });
  return () => stop.abort();
}

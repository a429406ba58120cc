// An agent's page, with Relay alone and no React: what it asks for are the documents that its authors have registered. It
// prints what it shows.
import { createClient } from 'graphql-ws';
import {
  ConnectionHandler,
  commitMutation,
  createOperationDescriptor,
  Environment,
  fetchQuery,
  type GraphQLResponse,
  type GraphQLTaggedNode,
  getRequest,
  type MutationParameters,
  Network,
  Observable,
  type OperationType,
  type PayloadError,
  RecordSource,
  requestSubscription,
  Store,
} from 'relay-runtime';
import type { documentsChangesSubscription } from './__generated__/documentsChangesSubscription.graphql';
import type { documentsCreateMutation } from './__generated__/documentsCreateMutation.graphql';
import type { documentsInboxQuery } from './__generated__/documentsInboxQuery.graphql';
import type { documentsSendMutation } from './__generated__/documentsSendMutation.graphql';
import type { documentsThreadQuery } from './__generated__/documentsThreadQuery.graphql';
import { changesSubscription, createMutation, inboxQuery, sendMutation, threadQuery } from './documents';

const url = process.env['BASE_URL'] ?? '';

/** What it finds in the `extensions` of an error. */
interface ServiceErrors {
  readonly errors?: readonly { extensions: { code: string; retryAfterSeconds?: number } }[];
}

function environmentOf(token: string): Environment {
  const authorization = `Bearer ${token}`;
  const socket = createClient({
    url: `${url.replace('http', 'ws')}/graphql`,
    connectionParams: { authorization },
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
  });
  const network = Network.create(
    async ({ id }, variables) => {
      const response = await fetch(`${url}/graphql`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json' },
        body: JSON.stringify({ documentId: id, variables }),
      });
      return (await response.json()) as GraphQLResponse;
    },
    ({ id }, variables) =>
      Observable.create<GraphQLResponse>((sink) => {
        let { after } = variables;
        const resuming = {
          ...variables,
          get after() {
            return after;
          },
        };
        const payload = { query: '', documentId: id, variables: resuming }; // graphql-ws demands a query
        return socket.subscribe<{ event?: { cursor: string } }>(payload, {
          next: (result) => {
            after = result.data?.event?.cursor ?? after;
            sink.next(result as GraphQLResponse);
          },
          error: (error) => sink.error(error instanceof Error ? error : new Error(JSON.stringify(error))),
          complete: () => sink.complete(),
        });
      }),
  );
  const parts = ['Visitor', 'Assignee', 'MessageAuthor'];
  return new Environment({
    network,
    store: new Store(new RecordSource()),
    getDataID: ({ id }, type) => (parts.includes(type) ? undefined : id),
  });
}

const environment = environmentOf(process.env['TOKEN'] ?? '');

/** What the page shows, of what the store has. */
function shown<T extends OperationType>(query: GraphQLTaggedNode, variables: T['variables']): T['response'] {
  const operation = createOperationDescriptor(getRequest(query), variables);
  environment.retain(operation);
  return environment.lookup(operation.fragment).data as T['response'];
}

async function ask<T extends OperationType>(query: GraphQLTaggedNode, variables: T['variables']) {
  await fetchQuery<T>(environment, query, variables).toPromise();
  return shown<T>(query, variables);
}

function mutate<T extends MutationParameters>(
  mutation: GraphQLTaggedNode,
  variables: T['variables'],
  by: Environment = environment,
) {
  return new Promise<{ response: T['response']; errors: readonly PayloadError[] | null | undefined }>(
    (resolve, reject) =>
      commitMutation<T>(by, {
        mutation,
        variables,
        onCompleted: (response, errors) => resolve({ response, errors }),
        onError: reject,
      }),
  );
}

// A list, and its next page.
const first = { first: 2 };
const subjects = () =>
  shown<documentsInboxQuery>(inboxQuery, first).conversations?.edges.map(({ node }) => node.subject) ?? [];
const inbox = (await ask<documentsInboxQuery>(inboxQuery, first)).conversations;
const firstPage = subjects();
await ask<documentsInboxQuery>(inboxQuery, { ...first, after: inbox?.pageInfo.endCursor });
const bothPages = subjects();

// What mutations make is put into the lists by the directives of their documents.
const created = await mutate<documentsCreateMutation>(createMutation, {
  input: { subject: 'Refund', visitor: { id: 'customer-7', name: 'Ada' } },
  connections: [inbox?.__id ?? ''],
});
const withCreated = subjects();
const id = created.response.createConversation?.conversationEdge.node.id ?? '';

const opened = await ask<documentsThreadQuery>(threadQuery, { id });
const connections = [opened.conversation?.messages?.__id ?? ''];
const input = { conversationId: id, sender: 'AGENT', content: 'How much was it?' } as const;
await mutate<documentsSendMutation>(sendMutation, { input, connections });
const thread = () => shown<documentsThreadQuery>(threadQuery, { id }).conversation;
const contents = () => thread()?.messages?.edges.map(({ node }) => node.content);
const withSent = contents();

// What others do arrives as events. One's own message does, too: it is in the list already.
const events: string[] = [];
const closed = Promise.withResolvers<void>();
const subscription = requestSubscription<documentsChangesSubscription>(environment, {
  subscription: changesSubscription,
  variables: { id, after: opened.eventCursor },
  updater(store) {
    const message = store.getRootField('conversationChanged')?.getLinkedRecord('message');
    const list = store.get(connections[0] ?? '');
    if (!message || !list) return;
    const isThere = list
      .getLinkedRecords('edges')
      ?.some((edge) => edge?.getLinkedRecord('node')?.getDataID() === message.getDataID());
    if (isThere) return;
    ConnectionHandler.insertEdgeAfter(list, ConnectionHandler.createEdge(store, list, message, 'MessageEdge'));
  },
  onNext(next) {
    if (next?.event) events.push(next.event.type);
    console.log(`event ${events.length}`);
    if (next?.event?.type === 'CONVERSATION_CLOSED') closed.resolve();
  },
  onError: closed.reject,
});
console.log(`opened ${id}`);
await closed.promise;
subscription.dispose();
const inTheEnd = { messages: contents(), status: thread()?.status };

// An error of the service, and what is refused at the door.
const late = await mutate<documentsSendMutation>(sendMutation, { input, connections });
const refused = (late.errors as ServiceErrors['errors'])?.map(({ extensions }) => extensions.code);
const spent = environmentOf(process.env['SPENT_KEY'] ?? '');
const codeOf = ({ source }: { source?: ServiceErrors }) => source?.errors?.[0]?.extensions;
const limited = [
  await fetchQuery(spent, inboxQuery, first).toPromise().catch(codeOf),
  await mutate<documentsSendMutation>(sendMutation, { input, connections }, spent).catch(codeOf),
];

console.log(JSON.stringify({ firstPage, bothPages, withCreated, withSent, events, inTheEnd, refused, limited }));

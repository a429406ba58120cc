import { validationFailed } from '../domain/errors.ts';
import { type IdKind, kindOfId } from '../domain/ids.ts';
import { builder, type GraphQLContext } from './builder.ts';

interface NodeShape {
  readonly id: string;
}

const kinds = 'conversation, message, lead, webhook, delivery, API key or account';

const others = 'Events and attempts are found only where they are listed: their ids give null, like unknown ones.';

export const Node = builder.interfaceRef<NodeShape>('Node').implement({
  description: `A ${kinds}, which \`node\` finds by its id. Ids are the same strings in REST.`,
  fields: (t) => ({ id: t.exposeID('id', { description: 'The id, whose prefix names the type of the object.' }) }),
  resolveType: ({ id }) => typeNames[kindOfId(id) as keyof typeof typeNames],
});

const typeNames = {
  conversation: 'Conversation',
  message: 'Message',
  lead: 'Lead',
  webhook: 'Webhook',
  delivery: 'Delivery',
  apiKey: 'ApiKey',
  account: 'Account',
} as const satisfies Partial<Record<IdKind, string>>;

/** Null for an id that is unknown, of another account, or of a type that is not a `Node`. */
async function loadNode(id: string, { loaders }: GraphQLContext): Promise<NodeShape | null> {
  switch (kindOfId(id)) {
    case 'conversation':
      return (await loaders.conversation.load(id)) ?? null;
    case 'message':
      return (await loaders.message.load(id)) ?? null;
    case 'lead':
      return (await loaders.lead.load(id)) ?? null;
    case 'webhook':
      return (await loaders.webhook.load(id)) ?? null;
    case 'delivery':
      return (await loaders.delivery.load(id)) ?? null;
    case 'apiKey':
      return (await loaders.apiKey.load(id)) ?? null;
    case 'account':
      return (await loaders.account.load(id)) ?? null;
    default:
      return null;
  }
}

const maxIds = 100;

function refuseTooMany(count: number): void {
  if (count > maxIds) throw validationFailed([{ path: ['ids'], detail: `must name at most ${maxIds} ids` }]);
}

builder.queryFields((t) => ({
  node: t.field({
    type: Node,
    nullable: true,
    description: `Returns the ${kinds} with this id; null if the caller can see none. ${others}`,
    args: { id: t.arg.id({ required: true, description: 'The id of the object.' }) },
    resolve: (_, { id }, context) => loadNode(id, context),
  }),
  nodes: t.field({
    type: [Node],
    nullable: { list: true, items: true },
    description: `Returns the ${kinds} for each of these ids, in their order; null for each that the caller cannot see. ${others} At most ${maxIds} ids.`,
    args: { ids: t.arg.idList({ required: true, description: 'The ids of the objects.' }) },
    resolve: (_, { ids }, context) => {
      refuseTooMany(ids.length);
      return ids.map((id) => loadNode(id, context));
    },
  }),
}));

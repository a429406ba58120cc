import { validationFailed } from '../domain/errors.ts';
import { type IdKind, kindOfId } from '../domain/ids.ts';
import { builder } from './builder.ts';
import type { OperationContext } from './context.ts';

interface NodeShape {
  readonly id: string;
}

const kinds = 'conversation, message, lead, webhook, delivery, API key or account';

const others = 'Events and attempts are found only where they are listed: their ids give null, like unknown ones.';

export const Node = builder.interfaceRef<NodeShape>('Node').implement({
  description: `A ${kinds}, which \`node\` finds by its id. Ids are the same strings in REST.`,
  fields: (t) => ({ id: t.exposeID('id', { description: 'The id, whose prefix names the type of the object.' }) }),
  resolveType: ({ id }) => typeNames[kindOfId(id) as NodeKind],
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

type NodeKind = keyof typeof typeNames;

function isNodeKind(kind: IdKind | undefined): kind is NodeKind {
  return kind !== undefined && kind in typeNames;
}

/** Null for an id that is unknown, of another account, or of a type that is not a `Node`. */
async function loadNode(id: string, { loaders }: OperationContext): Promise<NodeShape | null> {
  const kind = kindOfId(id);
  return isNodeKind(kind) ? ((await loaders[kind].load(id)) ?? null) : null;
}

const maxIds = 100;

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
      if (ids.length > maxIds) throw validationFailed([{ path: ['ids'], detail: `must name at most ${maxIds} ids` }]);
      return ids.map((id) => loadNode(id, context));
    },
  }),
}));

import type { Json } from './client.ts';

/** An event of GraphQL, selected with `select.event`, in the form that it has in REST but for enumerations. */
export function inFormOfRest(node: Json): Json {
  const { __typename, erased, conversation, message, lead, changes, conversationId, readPosition, ...event } = node;
  if (erased) return { ...event, data: { erased } };
  const parts = { message, lead, conversation, changes: changes && changesOf(changes), conversationId, readPosition };
  return { ...event, data: Object.fromEntries(Object.entries(parts).filter(([, part]) => part !== undefined)) };
}

function changesOf(list: Json[]): Json {
  const changes: Json = {};
  for (const { field, key, from, to } of list) {
    if (key === null) changes[field] = { from, to };
    else changes[field] = { ...changes[field], [key]: { from, to } };
  }
  return changes;
}

import { type ASTNode, Kind } from 'graphql';
import { statuses } from '../domain/lifecycle.ts';
import { senders } from '../domain/messages.ts';

// Limited to these contexts, because `visitor` is also a field of a conversation.
const quotedValue = new RegExp(
  `(?<=only as |one of .*)\`(?:${senders.join('|')})\`|\`(?:${statuses.join('|')})\``,
  'g',
);
const quotedSort = /(?<=sort |not of )`(-?)(createdAt|lastActivityAt)`/g;

/**
 * A sentence of the domain in the spelling of GraphQL: enum values in capitals, and `limit` under the name of the
 * argument that was given.
 * @param nodes the nodes of the document that it concerns
 */
export function inGraphQLSpelling(sentence: string, nodes: readonly ASTNode[] | undefined): string {
  if (!sentence.includes('`')) return sentence;
  const [node] = nodes ?? [];
  const size = node?.kind === Kind.FIELD && node.arguments?.find(({ name }) => /^(?:first|last)$/.test(name.value));
  const spelt = sentence
    .replace(quotedValue, (value) => value.toUpperCase())
    .replace(
      quotedSort,
      (_, minus: string, field: string) => `\`${inCapitals(field)}_${minus === '' ? 'ASC' : 'DESC'}\``,
    );
  return size ? spelt.replaceAll('`limit`', `\`${size.name.value}\``) : spelt;
}

/** `createdAt` as CREATED_AT. */
function inCapitals(name: string): string {
  return name.replace(/[A-Z]/g, '_$&').toUpperCase();
}

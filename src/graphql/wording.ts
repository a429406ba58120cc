import { type ASTNode, Kind } from 'graphql';
import { statuses } from '../domain/lifecycle.ts';

const quotedStatus = new RegExp(`\`(?:${statuses.join('|')})\``, 'g');

/**
 * A sentence of the domain with what it quotes as it is spelt here: a status in capitals, and a page's size by the
 * argument that it was asked for with.
 * @param nodes what in the document it is about
 */
export function asSpeltHere(sentence: string, nodes: readonly ASTNode[] | undefined): string {
  if (!sentence.includes('`')) return sentence;
  const [node] = nodes ?? [];
  const size = node?.kind === Kind.FIELD && node.arguments?.find(({ name }) => /^(?:first|last)$/.test(name.value));
  const spelt = sentence.replace(quotedStatus, (status) => status.toUpperCase());
  return size ? spelt.replaceAll('`limit`', `\`${size.name.value}\``) : spelt;
}

import type { Account } from '../domain/accounts.ts';
import { bindingOf, type Caller } from '../domain/caller.ts';
import type { Owner } from '../runtime/held-memory.ts';

/** Who calls, as far as it says whose memory the call takes. */
export interface Holder extends Pick<Caller, 'conversationId' | 'visitor'> {
  readonly account: Pick<Account, 'id'>;
}

/**
 * Whose memory a caller takes. The bound tokens of an account are an owner apart from it, whose members are those that are
 * bound to the same: visitors use up neither what the agents need, nor what other visitors do.
 */
export function memoryOwner(caller: Holder): Owner {
  const { id } = caller.account;
  const binding = bindingOf(caller);
  return binding === undefined ? { name: id } : { name: `${id} bound`, member: `${id} ${binding}` };
}

/** Whose memory is counted. */
export interface Owner {
  readonly name: string;
  /** Where many are one owner, which of them: it may hold less. */
  readonly member?: string;
}

/** Of what an owner may hold, a member of it may hold this. */
export const shareOfMember = 1 / 8;

/**
 * Counts what is held in memory, of each owner and in all, up to a limit on either. Of what is left, an owner may hold half:
 * so whoever comes next finds room, however many hold as much as they may.
 */
export class HeldMemory {
  readonly #limits: { readonly ofOne: number; readonly ofAll: number };
  /** By the names of owners, and of their members. */
  readonly #held = new Map<string, number>();
  #all = 0;

  constructor(limits: { readonly ofOne: number; readonly ofAll: number }) {
    this.#limits = limits;
  }

  /** @returns whether there is room for so much more; if not, it is not counted */
  add(owner: Owner, size: number): boolean {
    if (size > 0 && !this.#hasRoom(owner, size)) return false;
    this.#count(owner, size);
    return true;
  }

  remove(owner: Owner, size: number): void {
    this.#count(owner, -size);
  }

  #hasRoom({ name, member }: Owner, size: number): boolean {
    const { ofOne, ofAll } = this.#limits;
    if (this.#of(name) + size > Math.min(ofOne, ofAll - this.#all - size)) return false;
    return member === undefined || this.#of(member) + size <= ofOne * shareOfMember;
  }

  #of(name: string): number {
    return this.#held.get(name) ?? 0;
  }

  #count({ name, member }: Owner, size: number): void {
    this.#all += size;
    for (const each of member === undefined ? [name] : [name, member]) {
      const held = this.#of(each) + size;
      if (held > 0) this.#held.set(each, held);
      else this.#held.delete(each);
    }
  }
}

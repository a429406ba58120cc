/**
 * Counts what is held in memory, of each owner and in all, up to a limit on either. Of what is left, an owner may hold half:
 * so whoever comes next finds room, however many hold as much as they may.
 */
export class HeldMemory {
  readonly #limits: { readonly ofOne: number; readonly ofAll: number };
  readonly #byOwner = new Map<string, number>();
  #all = 0;

  constructor(limits: { readonly ofOne: number; readonly ofAll: number }) {
    this.#limits = limits;
  }

  /** @returns whether there is room for so much more; if not, it is not counted */
  add(owner: string, size: number): boolean {
    const ofOwner = (this.#byOwner.get(owner) ?? 0) + size;
    const all = this.#all + size;
    if (size > 0 && ofOwner > Math.min(this.#limits.ofOne, this.#limits.ofAll - all)) return false;
    if (ofOwner > 0) this.#byOwner.set(owner, ofOwner);
    this.#all = all;
    return true;
  }

  remove(owner: string, size: number): void {
    const ofOwner = (this.#byOwner.get(owner) ?? 0) - size;
    if (ofOwner > 0) this.#byOwner.set(owner, ofOwner);
    else this.#byOwner.delete(owner);
    this.#all -= size;
  }
}

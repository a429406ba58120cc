/** Counts what is held in memory, of each owner and in all, up to a limit on either. */
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
    if (ofOwner > this.#limits.ofOne || this.#all + size > this.#limits.ofAll) return false;
    if (ofOwner > 0) this.#byOwner.set(owner, ofOwner);
    this.#all += size;
    return true;
  }

  remove(owner: string, size: number): void {
    const ofOwner = (this.#byOwner.get(owner) ?? 0) - size;
    if (ofOwner > 0) this.#byOwner.set(owner, ofOwner);
    else this.#byOwner.delete(owner);
    this.#all -= size;
  }
}

/** How much may wait for the sockets of one account, or of one address before authentication. In UTF-16 code units. */
const maxTextOfOne = 16 * 1024 * 1024;
/** The same for all sockets. */
const maxText = 64 * 1024 * 1024;

/** Counts the text of messages that sockets have received and that wait for their turn. */
export class WaitingMessages {
  readonly #byOwner = new Map<string, number>();
  #total = 0;

  /** @returns false if there is no room for a message of this length */
  add(owner: string, length: number): boolean {
    const before = this.#byOwner.get(owner) ?? 0;
    if (before + length > maxTextOfOne || this.#total + length > maxText) return false;
    this.#byOwner.set(owner, before + length);
    this.#total += length;
    return true;
  }

  remove(owner: string, length: number): void {
    const left = (this.#byOwner.get(owner) ?? 0) - length;
    if (left > 0) this.#byOwner.set(owner, left);
    else this.#byOwner.delete(owner);
    this.#total -= length;
  }
}

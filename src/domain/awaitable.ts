/** A value that a storage may have at once, or later. Both are awaited. */
export type Awaitable<T> = T | Promise<T>;

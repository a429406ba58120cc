/** A value that an implementation may have at once or only later. Callers await both. */
export type Awaitable<T> = T | Promise<T>;

/**
 * Memoises an asynchronous initialisation, which runs on the first call. A failed one is tried again on the next call:
 * when file descriptors run out, for example, even loading a module fails.
 */
export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}

/**
 * Makes what is made when it is first asked for, once for all. What could not be made is tried anew the next time: for
 * want of file descriptors, say, even a module cannot be loaded.
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

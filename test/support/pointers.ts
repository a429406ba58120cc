/** REST's pointers as those of a mutation, which takes what REST has in the body, the path and the headers as `input`. */
export const inInput = (pointers: readonly string[]): string[] => pointers.map((pointer) => `/input${pointer}`);

/** What REST says of a fault in the query string: the parameter as a whole, also where it holds a list. */
export const parameterOf = (pointer: string): string => pointer.replace(/(?<=^\/[^/]+)\/.*$/, '');

/** REST's parameters as the arguments of a query, where the size of a page is `first`. */
export const inArguments = (pointers: readonly string[]): string[] =>
  pointers.map((pointer) => pointer.replace(/^\/limit$/, '/first'));

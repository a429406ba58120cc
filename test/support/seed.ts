const asked = process.env['TEST_SEED'];

/** What the chances of a test come from. A failure names it: with `TEST_SEED` it is tried again. */
export const seed = asked === undefined ? Math.floor(Math.random() * 2 ** 32) : Number(asked);

/** Says in its message how an error came about. */
export function withHint(error: unknown, how: string): unknown {
  if (error instanceof Error) error.message = `[${how}] ${error.message}`;
  return error;
}

/**
 * Headers with which a single operation by POST is left to Yoga's own steps, and answered with the same media type as
 * without: an `Accept` with a charset needs a closer look.
 */
export function leftToYoga(accept?: string): { accept: string } {
  return { accept: accept === undefined ? 'application/json;charset=utf-8' : `x/y;charset=utf-8, ${accept}` };
}

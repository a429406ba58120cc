/** 128 random bits. `crypto.randomUUID` is not there in a page without TLS, unless it is of the same machine. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (each) => each.toString(16).padStart(2, '0')).join('');
}

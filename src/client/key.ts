/** 128 random bits. `crypto.randomUUID` is not there in a page without TLS, unless it is of the same machine. */
export function newKey(): string {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
}

// The client's sockets connect again by themselves, and say nothing of it. Who uses the console wants to know.

export interface SocketWatcher {
  /** The service has answered over a socket. */
  answered(): void;
  /** A socket is closed, or could not be opened. @param code why, as the service says it */
  closed(code: number): void;
}

/**
 * Tells of the sockets that are opened from now on.
 * @returns a function that ends it
 */
export function watchSockets(watcher: SocketWatcher): () => void {
  const Plain = globalThis.WebSocket;
  class Watched extends Plain {
    constructor(...given: ConstructorParameters<typeof Plain>) {
      super(...given);
      this.addEventListener('message', () => watcher.answered(), { once: true });
      this.addEventListener('close', ({ code }) => watcher.closed(code));
    }
  }
  globalThis.WebSocket = Watched;
  return () => {
    if (globalThis.WebSocket === Watched) globalThis.WebSocket = Plain;
  };
}

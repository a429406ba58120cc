// The client's sockets connect again by themselves, and say nothing of it. Who uses the console wants to know.

interface SocketWatcher {
  /** The service has answered over a socket. */
  answered(): void;
  /** A socket is closed, or could not be opened. @param code why, as the service says it */
  closed(code: number): void;
}

/** A class of sockets that tells of what happens to them. */
export function watched(watcher: SocketWatcher): typeof WebSocket {
  return class extends WebSocket {
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given);
      this.addEventListener('message', () => watcher.answered(), { once: true });
      this.addEventListener('close', ({ code }) => watcher.closed(code));
    }
  };
}

// The client's sockets connect again by themselves, and say nothing of it. Who uses the console wants to know.

interface SocketWatcher {
  /** The service has answered over a socket. */
  answered(): void;
  /** The last socket is closed, or could not be opened. @param code why, as the service says it */
  closed(code: number): void;
}

/** A class of sockets that tells of what happens to them. */
export function watched(watcher: SocketWatcher): typeof WebSocket {
  let last: WebSocket;
  return class extends WebSocket {
    constructor(...given: ConstructorParameters<typeof WebSocket>) {
      super(...given);
      last = this;
      this.addEventListener('message', () => watcher.answered(), { once: true });
      this.addEventListener('close', ({ code }) => {
        if (last === this) watcher.closed(code); // one that hangs is closed long after it was replaced
      });
    }
  };
}

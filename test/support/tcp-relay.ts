import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/**
 * Passes connections on to servers by turns, as a proxy in front of them does, or the network between them and their
 * database; and can cut them. It is closed when the test has finished.
 */
export class TcpRelay {
  readonly #targets: URL[] = [];
  readonly #open = new Set<Socket>();
  readonly #server = createServer((client) => this.#pass(client));
  #turn = 0;
  /** What an answer has to hold for all connections to be cut instead of its being passed on. */
  #awaited: { readonly text: string; readonly cut: () => void } | undefined;
  /** What a client has to send for its connection to be held. */
  #watched: { readonly text: string; readonly hold: (client: Socket, pass: () => void) => void } | undefined;

  /** @param urls of the servers, with their ports */
  static async open(...urls: string[]): Promise<TcpRelay> {
    const relay = new TcpRelay();
    for (const url of urls) relay.add(url);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    onTestFinished(() => {
      relay.#server.close();
      relay.cut();
    });
    return relay;
  }

  /** The same URL, but through the relay. */
  through(url: string): string {
    const relayed = new URL(url);
    relayed.host = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return relayed.href.replace(/\/$/, '');
  }

  add(url: string): void {
    this.#targets.push(new URL(url));
  }

  remove(url: string): void {
    const { host } = new URL(url);
    this.#targets.splice(
      this.#targets.findIndex((target) => target.host === host),
      1,
    );
  }

  /** How many connections there are, counted at both ends. */
  get openEnds(): number {
    return this.#open.size;
  }

  /** Passes nothing on any more, and takes nothing: as a network that swallows everything. */
  stall(): void {
    for (const socket of this.#open) socket.pause();
  }

  /** Cuts all connections that there are. @returns how many */
  cut(): number {
    const count = this.#open.size;
    for (const socket of this.#open) socket.destroy();
    this.#open.clear();
    return count;
  }

  /** Waits for an answer that holds a text, and cuts all connections in its place. */
  cutAtAnswer(text: string): Promise<void> {
    return new Promise((resolve) => {
      this.#awaited = {
        text,
        cut: () => {
          this.#awaited = undefined;
          this.cut();
          resolve();
        },
      };
    });
  }

  /** Waits for a client that sends a text, and passes nothing of it on until it is released. @returns what releases it */
  holdAt(text: string): Promise<() => void> {
    return new Promise((resolve) => {
      this.#watched = {
        text,
        hold: (client, pass) => {
          this.#watched = undefined;
          client.pause();
          resolve(() => {
            pass();
            client.resume();
          });
        },
      };
    });
  }

  #pass(client: Socket): void {
    const target = this.#targets[this.#turn++ % this.#targets.length];
    if (target === undefined) {
      client.destroy();
      return;
    }
    const server = connect({ port: Number(target.port), host: target.hostname, noDelay: true });
    client.setNoDelay(true);
    client.on('data', (bytes) => {
      const pass = (): void => void server.write(bytes);
      if (this.#watched !== undefined && bytes.includes(this.#watched.text)) this.#watched.hold(client, pass);
      else pass();
    });
    server.on('data', (bytes) => {
      if (this.#awaited !== undefined && bytes.includes(this.#awaited.text)) this.#awaited.cut();
      else client.write(bytes);
    });
    const end = (): void => {
      for (const socket of [client, server]) {
        this.#open.delete(socket);
        socket.destroy();
      }
    };
    for (const socket of [client, server]) {
      this.#open.add(socket);
      socket.on('error', end).on('close', end).on('end', end);
    }
  }
}

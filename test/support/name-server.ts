import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { onTestFinished } from 'vitest';

/** What a name server answers: addresses of the kind asked for, a code of failure, or nothing ever. */
export type NameAnswer = readonly string[] | 'unknown' | 'failure' | 'silence';

const codes = { failure: 2, unknown: 3 } as const;

/** A name server over UDP, of the little that a question for addresses needs (RFC 1035). */
export class NameServer {
  /** The names that it was asked for, once for each kind of address. */
  readonly asked: string[] = [];
  answer: (name: string, kind: 'A' | 'AAAA') => NameAnswer = () => 'unknown';
  readonly #socket = createSocket('udp4');

  /** Opens one that is closed when the test has finished: see `listen`. */
  static async open(table?: Readonly<Record<string, NameAnswer>>): Promise<NameServer> {
    const server = await NameServer.listen(table);
    onTestFinished(() => server.close());
    return server;
  }

  /** @param table the names that it knows; of all others it says that they are unknown */
  static async listen(table: Readonly<Record<string, NameAnswer>> = {}): Promise<NameServer> {
    const server = new NameServer();
    server.answer = (name, kind) => {
      const answer = table[name] ?? 'unknown';
      return typeof answer === 'string' ? answer : answer.filter((text) => isIPv4(text) === (kind === 'A'));
    };
    server.#socket.on('message', (message, { port, address }) => {
      const reply = server.#reply(message);
      if (reply !== undefined) server.#socket.send(reply, port, address);
    });
    server.#socket.bind(0, '127.0.0.1');
    await once(server.#socket, 'listening');
    return server;
  }

  close(): void {
    this.#socket.close();
  }

  /** As `dns.Resolver` takes it. */
  get address(): string {
    return `127.0.0.1:${this.#socket.address().port}`;
  }

  #reply(message: Buffer): Buffer | undefined {
    const labels: string[] = [];
    let end = 12; // after the header
    for (let length = message.readUInt8(end); length > 0; length = message.readUInt8(end)) {
      labels.push(message.toString('latin1', end + 1, end + 1 + length));
      end += 1 + length;
    }
    const name = labels.join('.').toLowerCase();
    const kind = message.readUInt16BE(end + 1) === 28 ? 'AAAA' : 'A';
    this.asked.push(name);
    const answer = this.answer(name, kind);
    if (answer === 'silence') return undefined;
    const question = message.subarray(12, end + 5);
    const addresses =
      typeof answer === 'string' ? [] : answer.map((text) => Buffer.from(ipaddr.parse(text).toByteArray()));
    const records = addresses.map((bytes) => {
      const head = Buffer.from([0xc0, 12, 0, kind === 'AAAA' ? 28 : 1, 0, 1, 0, 0, 0, 0, 0, bytes.length]);
      return Buffer.concat([head, bytes]);
    });
    const header = Buffer.alloc(12);
    header.writeUInt16BE(message.readUInt16BE(0), 0);
    header.writeUInt16BE(0x8180 | (typeof answer === 'string' ? codes[answer] : 0), 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(records.length, 6);
    return Buffer.concat([header, question, ...records]);
  }
}

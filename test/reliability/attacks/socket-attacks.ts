import { aliases, momentMs, send, sleep, type Target, times } from './attacker.ts';
import { requestBytes } from './connection.ts';
import { Outcomes, unfinished } from './outcomes.ts';
import { conditions } from './preparations.ts';
import { copiesOf, FloodSocket, frame } from './sockets.ts';
import type { Attack } from './table.ts';

interface Flood {
  readonly sockets: number;
  readonly forMs: number;
  readonly bytes: Buffer;
  /** Whether the bytes are sent once only, and the socket then stays. */
  readonly once?: boolean;
  /** Whether a socket that was closed is opened again. */
  readonly again?: boolean;
}

/** Sends the same on many sockets, as fast as the server takes it. */
async function flood(target: Target, { sockets, forMs, bytes, once = false, again = true }: Flood): Promise<Outcomes> {
  const outcomes = new Outcomes();
  const endMs = performance.now() + forMs;
  const open: FloodSocket[] = [];
  const leave = sleep(forMs).then(() => {
    for (const socket of open) socket.close();
  });
  await Promise.all(
    times(sockets, async () => {
      do {
        const opening = FloodSocket.open(target.url, target.secret);
        const socket = await Promise.race([opening, leave.then(() => undefined)]);
        if (socket === undefined) {
          outcomes.add(unfinished);
          void opening.then((late) => late.close());
          return;
        }
        open.push(socket);
        do {
          if (!(await socket.write(bytes))) break;
        } while (!once && performance.now() < endMs);
        if (once) while (socket.isOpen && performance.now() < endMs) await sleep(50);
        outcomes.add(socket.ending ?? unfinished);
        socket.close();
      } while (again && performance.now() < endMs);
    }),
  );
  return outcomes;
}

function subscribing(index: number, query: string, variables?: object): Buffer {
  return frame(JSON.stringify({ id: `s${index}`, type: 'subscribe', payload: { query, variables } }));
}

/** Operations that wait for room, whose variables hold so many empty objects. */
function floodWithObjects(target: Target, objects: number): Promise<Outcomes> {
  const query = '{ conversations(first: 100) { nodes { messages(first: 100) { nodes { id } } } } }';
  const padding = times(objects, () => ({}));
  const bytes = Buffer.concat(times(100, (index) => subscribing(index, query, { padding })));
  return flood(target, { sockets: 200, forMs: 8_000, bytes });
}

export const socketAttacks: Attack[] = [
  {
    name: 'sockets that send ping messages without end',
    limits: 'trial',
    withOtherLimits: true,
    isShort: true,
    attack: (target) =>
      flood(target, {
        sockets: 20,
        forMs: target.isLong ? 15_000 : momentMs,
        bytes: copiesOf(frame('{"type":"ping"}')),
      }),
  },
  {
    name: 'sockets that complete subscriptions that are not there',
    limits: 'trial',
    withOtherLimits: true,
    attack: (target) =>
      flood(target, {
        sockets: 5,
        forMs: target.isLong ? 12_000 : momentMs,
        bytes: copiesOf(frame('{"id":"nothing","type":"complete"}')),
      }),
  },
  {
    name: 'sockets that send pings of the protocol below',
    limits: 'trial',
    attack: (target) => flood(target, { sockets: 20, forMs: 12_000, bytes: copiesOf(frame('', 0x89)) }),
  },
  {
    name: 'sockets with messages of very many fragments',
    limits: 'trial',
    withOtherLimits: true,
    isShort: true,
    attack: (target) =>
      flood(target, {
        sockets: 50,
        forMs: target.isLong ? 5_000 : momentMs,
        bytes: Buffer.concat([frame('{', 0x01), ...times(16_000, () => frame(' ', 0x00))]),
        once: true,
        again: false,
      }),
  },
  {
    name: 'sockets with messages that lack their last byte',
    limits: 'raised',
    attack: (target) =>
      flood(target, {
        sockets: 1_000,
        forMs: 8_000,
        bytes: frame(' '.repeat(65_000)).subarray(0, -1),
        once: true,
        again: false,
      }),
  },
  {
    name: 'sockets that send subscribe messages that are refused',
    limits: 'trial',
    attack: (target) =>
      flood(target, {
        sockets: 20,
        forMs: 12_000,
        bytes: Buffer.concat(times(500, (index) => subscribing(index, '{ account { id } }'))),
      }),
  },
  {
    name: 'sockets that send large messages that are refused',
    limits: 'trial',
    attack: (target) => {
      const query = `{ account { ${aliases(600, 'id')} } } #${'x'.repeat(55_000)}`;
      const bytes = Buffer.concat(times(20, (index) => subscribing(index, query)));
      return flood(target, { sockets: 20, forMs: 12_000, bytes });
    },
  },
  {
    name: 'sockets with many operations that have more variables than allowed',
    limits: 'raised',
    attack: (target) => floodWithObjects(target, 11_000),
  },
  {
    name: 'sockets with many operations that have as many variables as allowed',
    limits: 'raised',
    attack: (target) => floodWithObjects(target, 450),
  },
  {
    name: 'subscriptions that keep variables of 15 KB',
    limits: 'raised',
    attack: (target) => {
      const query =
        'subscription ($r: [String!]) { messageReceived { conversation { current { readPositions(readers: $r) { sequence } } } } }';
      const bytes = Buffer.concat(
        times(100, (index) => subscribing(index, query, { r: [`${index} ${'x'.repeat(15_000)}`] })),
      );
      return flood(target, { sockets: 200, forMs: 8_000, bytes, once: true, again: false });
    },
  },
  {
    name: 'subscriptions in all forms that their conditions give them',
    limits: 'trial',
    withOtherLimits: true,
    attack: (target) => {
      const { declared, fields, variables } = conditions;
      const query = `subscription (${declared}) { events { ${fields} ${aliases(300, 'id')} } }`;
      const bytes = Buffer.concat(times(90, (index) => subscribing(index, query, variables(index))));
      const sockets = target.limits === 'trial' ? 1 : 20;
      return flood(target, { sockets, forMs: 8_000, bytes, once: true, again: false });
    },
  },
  {
    name: 'events for as many subscriptions as there may be',
    limits: 'raised',
    async attack(target) {
      const subscribe = times(100, (index) => subscribing(index, 'subscription { conversationStarted { id } }'));
      const listening = flood(target, {
        sockets: target.isLong ? 300 : 10,
        forMs: 20_000,
        bytes: Buffer.concat(subscribe),
        once: true,
        again: false,
      });
      await sleep(10_000);
      const create = requestBytes('POST', '/v1/conversations', { secret: target.secret, body: {} });
      const outcomes = await send(target, { connections: 1, requests: 10 }, () => create);
      outcomes.addAll(await listening);
      return outcomes;
    },
  },
  {
    name: 'sockets that are opened and left at once',
    limits: 'trial',
    async attack(target) {
      const outcomes = new Outcomes();
      const endMs = performance.now() + 8_000;
      await Promise.all(
        times(32, async () => {
          while (performance.now() < endMs) {
            const socket = await FloodSocket.open(target.url, target.secret);
            outcomes.add(socket.ending ?? unfinished);
            socket.close();
          }
        }),
      );
      return outcomes;
    },
  },
];

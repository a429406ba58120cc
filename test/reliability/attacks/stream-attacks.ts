import { type Target, times } from './attacker.ts';
import { HttpConnection, requestBytes } from './connection.ts';
import { Outcomes } from './outcomes.ts';
import { hundredEvents } from './preparations.ts';
import { settled } from './subscriptions.ts';
import type { Attack } from './table.ts';

// Attacks by streams of Server-Sent Events.

/** Follows the log on so many streams, and reads what comes. @returns a function that ends them */
export async function followLog(
  { url, secret }: Target,
  count: number,
  { after, outcomes }: { after?: string | undefined; outcomes: Outcomes },
): Promise<() => void> {
  const query = after === undefined ? '' : `?after=${encodeURIComponent(after)}`;
  const request = requestBytes('GET', `/v1/events/stream${query}`, { secret });
  const all: HttpConnection[] = [];
  let isOver = false;
  const begin = async (): Promise<void> => {
    const connection = new HttpConnection(url);
    all.push(connection);
    const { socket } = connection;
    socket.on('data', (chunk: Buffer) => {
      const events = chunk.toString('latin1').split('\nevent: ').length - 1;
      if (events > 0) outcomes.add('event', events);
    });
    // Only one that is refused or cut off has a whole answer.
    void connection.ask(request).then((answer) => {
      if (!isOver) outcomes.addAnswer(answer);
    });
    await new Promise((resolve) => socket.once('data', resolve).once('close', resolve));
  };
  for (let begun = 0; begun < count; begun += 20) await Promise.all(times(Math.min(20, count - begun), begin));
  return () => {
    isOver = true;
    for (const connection of all) connection.close();
  };
}

export const streamAttacks: Attack[] = [
  {
    name: 'a thousand streams that replay a hundred events',
    limits: 'raised',
    withOtherLimits: true,
    isShort: true,
    prepare: hundredEvents,
    async attack(target) {
      const outcomes = new Outcomes();
      const after = target.fixture['after'];
      const end = await followLog(target, target.isLong ? 1_000 : 50, { after, outcomes });
      await settled(outcomes, target.isLong ? 3_000 : 200, 40_000);
      end();
      return outcomes;
    },
  },
];

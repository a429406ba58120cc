import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Running, start } from './cli/program.ts';
import { clientOf, type Json } from './support/client.ts';
import { longTest } from './support/effort.ts';
import { temporaryFolder } from './support/files.ts';
import { until } from './support/wait.ts';

// Between a commit and its answer lies an instant in which a program can die. A client that hears nothing
// sends again, and must be able to: so a real process is killed while clients do just that.

const kills = 12;
const requestCount = 4_000; // a business account has 10,000, of which each kill loses some
const atOnce = 100;

interface Asked {
  readonly path: string;
  readonly body: Json;
}

longTest(
  'clients that repeat their requests under keys until they are answered have each done once, however often the server is killed',
  {
    timeout: 600_000,
  },
  async () => {
    const path = join(temporaryFolder(), 'test.db');
    let secret = '';
    async function serve(): Promise<{ process: Running; url: string }> {
      const process = start(['serve'], { environment: { PORT: '0', DATABASE_URL: `file:${path}`, LOG_LEVEL: 'info' } });
      const printed = await process.printed('"listening"');
      secret = /\bcs_[\w-]{43}/.exec(printed)?.[0] ?? secret; // the first start makes an account
      return { process, url: /"url":"([^"]+)"/.exec(printed)?.[1] ?? '' };
    }

    let server = await serve();
    const { id } = (await clientOf(server.url, secret).rest('POST', '/conversations')).body;
    const askedAs = (number: number): Asked => {
      const message = { content: `message ${number}`, sender: 'visitor' };
      if (number % 4 === 0) return { path: '/conversations', body: { subject: `conversation ${number}`, message } };
      if (number % 4 === 1) return { path: '/leads', body: { phone: `${number}` } };
      return { path: `/conversations/${id}/messages`, body: message };
    };

    const answers = new Map<number, Json>();
    let unanswered = 0;
    let repeated = 0;
    /** Sends until there is an answer, wherever the server is by then. */
    async function ask(number: number): Promise<Json> {
      for (;;) {
        try {
          const { path: to, body } = askedAs(number);
          const headers = { 'idempotency-key': `request-${number}` };
          const answer = await clientOf(server.url, secret).rest('POST', to, { body, headers });
          if (answer.headers['idempotent-replayed'] === 'true') repeated++;
          if (answer.status === 201) return answer.body;
          if (answer.status !== 503) throw new RangeError(JSON.stringify(answer.body));
        } catch (error) {
          if (error instanceof RangeError) throw error;
          unanswered++;
          await sleep(100); // for as long as nobody listens
        }
      }
    }
    let next = 0;
    const clients = Array.from({ length: atOnce }, async () => {
      while (next < requestCount) {
        const number = next++;
        answers.set(number, await ask(number));
      }
    });
    for (let kill = 1; kill <= kills; kill++) {
      const enough = Math.floor(((kill - Math.random()) * requestCount) / (kills + 1));
      await until(() => answers.size >= enough);
      await sleep(10 * Math.random()); // a group of commits and its answers take about as long
      server.process.signal('SIGKILL');
      await server.process.ended;
      server = await serve();
    }
    await Promise.all(clients);
    expect(unanswered).toBeGreaterThan(0);

    const client = clientOf(server.url, secret);
    const before = repeated;
    for (const number of [0, 1, 2, 3, requestCount - 1]) expect(await ask(number)).toEqual(answers.get(number));
    expect(repeated - before).toBe(5);

    const numbers = Array.from({ length: requestCount }, (_, number) => number);
    const sent = numbers.filter((number) => number % 4 >= 2);
    const started = numbers.filter((number) => number % 4 === 0);
    const { body: conversation } = await client.rest('GET', `/conversations/${id}`);
    expect(conversation.messages.map(({ content }: Json) => content).sort()).toEqual(
      sent.map((number) => `message ${number}`).sort(),
    );
    expect([conversation.messageCount, conversation.version]).toEqual([sent.length, sent.length + 1]);
    for (const [number, answer] of answers) {
      if (number % 4 >= 2) expect(conversation.messages[answer.sequence - 1]).toEqual(answer);
    }
    const total = async (what: string) => (await client.rest('GET', `/${what}?limit=1`)).body.pagination.total;
    expect(await total('conversations')).toBe(started.length + 1);
    expect(await total('leads')).toBe(requestCount / 4);
    const { totals } = (await client.rest('GET', '/analytics')).body;
    expect(totals).toMatchObject({
      conversationsStarted: started.length + 1,
      messages: { visitor: started.length + sent.length },
      leads: requestCount / 4,
    });
    // Started, received with each start and each message, captured: and no event twice.
    const events = 1 + 2 * started.length + sent.length + requestCount / 4;
    const cursor = (await client.graphql('{ eventCursor }')).data.eventCursor;
    expect(Buffer.from(cursor, 'base64url').toString().split('.')[1]).toBe(String(events));
  },
);

import { cpSync } from 'node:fs';
import { operatorOf } from '../../src/domain/caller.ts';
import { LogEvent } from '../../src/domain/events.ts';
import { sendMessage } from '../../src/domain/messages.ts';
import { createWebhook } from '../../src/domain/webhooks.ts';
import { openSqliteStorage } from '../../src/storage/sqlite/storage.ts';
import { type BenchData, portsOn } from './data.ts';
import { ours, peer, remove, serve } from './processes.ts';
import { inRounds, type Plan, ratio, type WorkResult } from './throughput.ts';

const webhooks = 8;

interface Received {
  readonly perSecond: number;
}

/** Deliveries of a backlog to a receiver that takes all: ours claimed, signed and logged, the peer's only posted. */
export async function compareDeliveries(data: BenchData, { rounds, seconds }: Plan): Promise<WorkResult> {
  const messages = seconds * 300;
  const path = `${data.path}.backlog`;
  const environment = {
    BENCH_AWAITED: String(messages * webhooks),
    WEBHOOK_ALLOW_HTTP: 'true',
    WEBHOOK_ALLOW_PRIVATE_NETWORKS: 'true',
  };
  let body = '';
  const { raw, medians } = await inRounds([ours, peer('post')], rounds, async (contestant) => {
    const receiver = await serve({ name: 'receiver', args: ['test/bench/receiver.mjs'] }, data, environment);
    try {
      if (contestant === ours) {
        remove(path);
        cpSync(data.path, path);
        body = await makeBacklog({ ...data, path }, receiver.url, messages);
      }
      const sender = await serve(
        contestant,
        { ...data, path },
        { ...environment, BENCH_RECEIVER: receiver.url, BENCH_BODY: body },
      );
      const { perSecond } = (await (await fetch(receiver.url)).json()) as Received;
      await sender.stop();
      return Math.round(perSecond);
    } finally {
      await receiver.stop();
    }
  });
  remove(path);
  return {
    name: 'Webhook deliveries',
    unit: 'deliveries/s',
    raw,
    median: medians,
    ratios: { post: { ratio: ratio(medians['ours'], medians['post']), aim: 0.6 } },
  };
}

/**
 * Has webhooks made and messages sent that they are to be told of, while nobody delivers.
 * @returns what is delivered of one
 */
async function makeBacklog({ path, accountId, withMessages }: BenchData, url: string, count: number): Promise<string> {
  const storage = openSqliteStorage(path);
  const account = await storage.read.accounts.find(accountId);
  if (account === undefined) throw new Error('The account is gone');
  const caller = operatorOf(account);
  const ports = portsOn(storage);
  for (let index = 0; index < webhooks; index++) {
    await createWebhook.execute(ports, caller, { url: `${url}/${index}`, events: ['message.received'] });
  }
  const content = 'Is there any news about my parcel?';
  for (let sent = 0; sent < count; sent += 50) {
    const ids = Array.from({ length: 50 }, (_, index) => withMessages[(sent + index) % withMessages.length]);
    await Promise.all(
      ids.map((conversationId) => sendMessage.execute(ports, caller, { conversationId, content, sender: 'visitor' })),
    );
  }
  const epoch = await storage.read.events.epoch();
  const { events } = await storage.read.events.after(accountId, 0, { filter: {}, limit: 1, span: 1 });
  const body = events.map((event) => new LogEvent(accountId, epoch, event).json).join('');
  await storage.close();
  return body;
}

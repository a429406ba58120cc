import type { BenchData } from './data.ts';
import { type Contestant, measure, ours, peer } from './processes.ts';
import { inRounds, onFreshCopy, type Plan, ratio, type WorkResult } from './throughput.ts';

const query = `subscription { messageReceived {
  id type timestamp sequence cursor message { id sender content createdAt } conversation { conversationId status messageCount }
} }`;
const subscribers = 1_000;
const publishers = 4;

interface Measured {
  readonly eventsTimesSubscribersPerSecond: number;
}

/** Events to many sockets: ours logged, authorised and asked for by GraphQL, the peer's as they come. */
export async function compareFanOut(data: BenchData, { rounds, seconds }: Plan): Promise<WorkResult> {
  const contestants = [ours, peer('broadcast')];
  const amounts = { subscribers, events: seconds * 40 };
  const { raw, medians } = await inRounds(contestants, rounds, (contestant) =>
    onFreshCopy(contestant, data, ({ url }) => fanOutOf(contestant, data, [url], amounts)),
  );
  return {
    name: 'Fan-out to 1,000 sockets',
    unit: 'events × subscribers/s',
    raw,
    median: medians,
    ratios: { broadcast: { ratio: ratio(medians['ours'], medians['broadcast']), aim: 0.9 } },
  };
}

/**
 * @param urls of the nodes: the sockets are opened on them by turns, and the events are made on the first
 * @returns events × subscribers in a second
 */
export async function fanOutOf(
  contestant: Contestant,
  data: BenchData,
  urls: readonly string[],
  amounts: { readonly subscribers: number; readonly events: number },
): Promise<number> {
  const load = { ...loadOf(contestant, data, urls), ...amounts, publishers };
  return Math.round((await measure<Measured>('subscribers.mjs', load)).eventsTimesSubscribersPerSecond);
}

function loadOf(contestant: Contestant, data: BenchData, urls: readonly string[]) {
  const authorization = `Bearer ${data.secret}`;
  const headers = { 'content-type': 'application/json', authorization };
  // The broadcast has no subscriptions to ask for.
  if (contestant.args !== ours.args) return { urls, messages: [], publish: [{ path: '/', headers, body: sample }] };
  return {
    urls: urls.map((url) => `${url}/graphql`),
    messages: [
      JSON.stringify({ type: 'connection_init', payload: { authorization } }),
      JSON.stringify({ id: '9d6b5a53-2d6c-4b6e-a3a3-0f4f6b1c2d3e', type: 'subscribe', payload: { query } }),
    ],
    publish: data.withMessages.map((id) => ({
      path: `/v1/conversations/${id}/messages`,
      headers,
      body: JSON.stringify({ content: 'Is there any news about my parcel?', sender: 'visitor' }),
    })),
  };
}

/** A message of ours, byte for byte but for its ids. */
const sample = JSON.stringify({
  id: '9d6b5a53-2d6c-4b6e-a3a3-0f4f6b1c2d3e',
  type: 'next',
  payload: {
    data: {
      messageReceived: {
        id: 'evt_01m7ybqaw0f91bawnb56mvnr9q',
        type: 'MESSAGE_RECEIVED',
        timestamp: '2026-11-21T06:12:00.000Z',
        sequence: 1234,
        cursor: 'eyJlcG9jaCI6IjAxbTd5YnFhdzBmOTFiYXduYjU2bXZucjlxIiwiczoxMjM0',
        message: {
          id: 'msg_01m7ybqaw0f91bawnb56mvnr9q',
          sender: 'VISITOR',
          content: 'Is there any news about my parcel?',
          createdAt: '2026-11-21T06:12:00.000Z',
        },
        conversation: { id: 'conv_01m7ybqaw0f91bawnb56mvnr9q', status: 'ACTIVE', messageCount: 11 },
      },
    },
  },
});

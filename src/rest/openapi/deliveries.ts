import { eventShape, sampleEventShape } from '../../domain/event-shape.ts';
import { exampleId } from '../../domain/ids.ts';
import { exampleOf } from './examples.ts';
import type { SchemaComponents } from './json-schema.ts';
import type { OpenApiOperation, OpenApiParameter } from './types.ts';

const signature = 'v1,[A-Za-z0-9+/]{43}=';

const parameters: readonly OpenApiParameter[] = [
  {
    name: 'webhook-id',
    in: 'header',
    description: 'The `id` of the event, the same in every attempt.',
    required: true,
    schema: { type: 'string' },
    example: exampleId('event'),
  },
  {
    name: 'webhook-timestamp',
    in: 'header',
    description: 'The time of this attempt, in Unix seconds.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^\d+$` },
    example: '1795241520',
  },
  {
    name: 'webhook-signature',
    in: 'header',
    description:
      'HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` in base64. The key is the part of the secret after `whsec_`, decoded from base64. For 24 hours after a rotation there is a second signature by the old secret, separated by a space.',
    required: true,
    schema: { type: 'string', pattern: `^${signature}( ${signature})*$` },
    example: 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  },
  {
    name: 'traceparent',
    in: 'header',
    description: 'The trace of the request that caused the event (W3C Trace Context), if it had one.',
    required: false,
    schema: { type: 'string', pattern: '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' },
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  },
];

/** The request that a webhook's URL receives, and how its responses are treated. */
export function deliveryOperation(components: SchemaComponents): OpenApiOperation {
  const event = components.of(eventShape, 'output');
  const sample = components.of(sampleEventShape, 'output');
  return {
    operationId: 'receiveEvent',
    summary: 'Receives an event at the URL of a webhook.',
    description:
      'Signed according to Standard Webhooks 1.0: verify the signature over the raw body before processing it. Each event is sent at least once, and not always in the order of the log: ignore a `webhook-id` that was processed before.',
    tags: ['webhooks'],
    security: [],
    parameters,
    requestBody: {
      required: true,
      content: {
        'application/json': {
          schema: { anyOf: [event, sample] },
          examples: {
            event: { value: exampleOf(event, components) },
            sample: { value: exampleOf(sample, components) },
          },
        },
      },
    },
    responses: {
      '2XX': { description: 'Accepted.', headers: {} },
      410: { description: 'Gone: the webhook is disabled.', headers: {} },
      default: {
        description:
          'Any other response, redirects included, is a failure, as is none within 15 seconds. The event is sent again, up to ten times in all over about three days; a sample is not.',
        headers: {
          'Retry-After': {
            description:
              'The least time to wait before the next attempt, as seconds or a date; at most a day is respected.',
            schema: { type: 'string' },
            example: '120',
          },
        },
      },
    },
  };
}

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
    description: 'The event’s `id`: the same each time that it is sent.',
    required: true,
    schema: { type: 'string' },
    example: exampleId('event'),
  },
  {
    name: 'webhook-timestamp',
    in: 'header',
    description: 'When this attempt was made, in seconds since 1970.',
    required: true,
    schema: { type: 'string', pattern: String.raw`^\d+$` },
    example: '1795241520',
  },
  {
    name: 'webhook-signature',
    in: 'header',
    description:
      'HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>` in base64, its key what the secret has in base64 after `whsec_`. For 24 hours after a rotation the old secret signs too, with a space between.',
    required: true,
    schema: { type: 'string', pattern: `^${signature}( ${signature})*$` },
    example: 'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  },
  {
    name: 'traceparent',
    in: 'header',
    description: 'The trace of the request that made the event (W3C Trace Context), if that request was part of one.',
    required: false,
    schema: { type: 'string', pattern: '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$' },
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  },
];

/** What is sent to the address of a webhook, and what its answers mean. */
export function deliveryOperation(components: SchemaComponents): OpenApiOperation {
  const event = components.of(eventShape, 'output');
  const sample = components.of(sampleEventShape, 'output');
  return {
    operationId: 'receiveEvent',
    summary: 'Receives an event at the address of a webhook.',
    description:
      'Signed as Standard Webhooks 1.0 has it: verify it, with the body as it came, before you act on it. Each event is sent at least once, and not always in the order of the log: pass over a `webhook-id` that you have seen.',
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
      '2XX': { description: 'It has arrived.', headers: {} },
      410: { description: 'Nothing is to be sent to this address any more: the webhook is disabled.', headers: {} },
      default: {
        description:
          'It has failed, as it has without an answer within 15 seconds: redirects are not followed. It is sent again, ten times in all within about three days; a sample is not.',
        headers: {
          'Retry-After': {
            description: 'How many seconds to wait at least, or until which date: up to a day is heeded.',
            schema: { type: 'string' },
            example: '120',
          },
        },
      },
    },
  };
}

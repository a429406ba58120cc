import { z } from 'zod';
import { type ErrorCode, errorCodes } from '../domain/errors.ts';
import { eventShape } from '../domain/event-shape.ts';
import { exampleEventCursor } from '../domain/events.ts';

// The shapes that REST puts around those of the domain.

const paginationShape = z
  .object({
    limit: z
      .int()
      .min(1)
      .describe('How many were asked for.')
      .meta({ examples: [20] }),
    offset: z.int().min(0).describe('How many were skipped.'),
    total: z
      .int()
      .min(0)
      .describe('How many there are in all.')
      .meta({ examples: [1] }),
    hasMore: z.boolean().describe('Whether more comes after this page.'),
    nextCursor: z
      .string()
      .nullable()
      .describe('What to give as `after` to go on; null at the end.')
      .meta({ examples: [null] }),
  })
  .meta({ id: 'Pagination', description: 'Where a page lies in its list.' });

/** The shape of a page of a list. */
export function listOf<Item extends z.ZodType>(item: Item) {
  const name = z.globalRegistry.get(item)?.id;
  return z
    .object({
      data: z.array(item).readonly().describe('What is on the page.'),
      pagination: paginationShape,
    })
    .meta({ id: `${name}List`, description: `A page of a list of ${name}.` });
}

export type ListOf<Item> = z.output<ReturnType<typeof listOf<z.ZodType<Item>>>>;

export const eventPageShape = z
  .object({
    data: z.array(eventShape).readonly().describe('What is on the page, oldest first.'),
    pagination: z
      .object({
        limit: z
          .int()
          .min(1)
          .describe('How many were asked for.')
          .meta({ examples: [20] }),
        hasMore: z.boolean().describe('Whether the log holds more after this page.'),
        nextCursor: z
          .string()
          .describe('What to give as `after` to go on, now or when there is more.')
          .meta({ examples: [exampleEventCursor] }),
      })
      .describe('Where the page lies in the log.'),
  })
  .meta({ id: 'EventList', description: 'A page of the log.' });

/** RFC 9457 problem details, with the code and what a client needs to act on it. */
export const problemShape = z
  .object({
    type: z.string().describe('A stable URI that ends in the code. It names, and need not be fetched.'),
    title: z.string().describe('What the code means, in words.'),
    status: z.int().describe('The status of the response.'),
    detail: z.string().describe('One sentence that helps.'),
    instance: z.string().describe('The path that was asked for.'),
    code: z.enum(Object.keys(errorCodes) as ErrorCode[]).describe('What to act on.'),
    requestId: z.string().describe('The request’s id, the same as in `X-Request-Id`.'),
    oldestCursor: z.string().optional().describe('For `CURSOR_EXPIRED`: where the log can be read from.'),
    errors: z
      .array(
        z.object({
          pointer: z.string().optional().describe('Where in the input: a JSON Pointer (RFC 6901).'),
          header: z.string().optional().describe('Which header brought it, beside `pointer`.'),
          parameter: z.string().optional().describe('Which query parameter, in place of `pointer`.'),
          detail: z.string().describe('What is wrong with it and, where it can be said, what would be right.'),
        }),
      )
      .readonly()
      .optional()
      .describe('For `VALIDATION_FAILED`: all that is wrong with the input.'),
  })
  .meta({ id: 'Problem', description: 'Why a request was not done (RFC 9457).' });

export type Problem = Readonly<z.output<typeof problemShape>>;

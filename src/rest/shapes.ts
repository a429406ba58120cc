import * as z from 'zod';
import { documentShape } from '../domain/documents.ts';
import { exampleEventCursor } from '../domain/event-cursor.ts';
import { eventShape } from '../domain/event-shape.ts';
import { searchResultShape } from '../domain/search.ts';
import { countShape, nullableText, textShape } from '../domain/shapes.ts';

// Schemas of REST responses around those of the domain.

const paginationShape = z
  .object({
    limit: countShape('The requested page size.', 20, 1),
    offset: z.int().min(0).describe('Number of items skipped.'),
    total: z
      .int()
      .min(0)
      .optional()
      .describe('The total number of items. Left out with `total=none`.')
      .meta({ examples: [1] }),
    hasMore: z.boolean().describe('Whether there are more items after this page.'),
    nextCursor: nullableText('The cursor to pass as `after` to get the next page; null on the last page.', null),
  })
  .meta({ id: 'Pagination', description: 'The position of a page in its list.' });

/** The schema of a page of a list. */
export function listOf<Item extends z.ZodType>(item: Item) {
  const name = z.globalRegistry.get(item)?.id;
  return z
    .object({
      data: z.array(item).readonly().describe('The items of the page.'),
      pagination: paginationShape,
    })
    .meta({ id: `${name}List`, description: `A page of a list of ${name}.` });
}

/** The schema of search results, which are counted up to a limit. */
export const searchResultsShape = z
  .object({
    data: z.array(searchResultShape).readonly().describe('The results of the page.'),
    pagination: z
      .object({
        limit: paginationShape.shape.limit,
        total: z
          .int()
          .min(0)
          .optional()
          .describe('The number of results, counted up to 1,000. Left out with `total=none`.')
          .meta({ examples: [1] }),
        totalIsMore: z.boolean().optional().describe('Whether there are more than `total`. Left out with it.'),
        hasMore: paginationShape.shape.hasMore,
        nextCursor: paginationShape.shape.nextCursor,
      })
      .describe('The position of the page among the results.'),
  })
  .meta({ id: 'SearchResultList', description: 'A page of search results, newest first.' });

export type ListOf<Item> = z.output<ReturnType<typeof listOf<z.ZodType<Item>>>>;

export const eventPageShape = z
  .object({
    data: z.array(eventShape).readonly().describe('The events of the page, oldest first.'),
    pagination: z
      .object({
        limit: countShape('The requested page size.', 20, 1),
        hasMore: z.boolean().describe('Whether the log continues after this page, with matching events or without.'),
        nextCursor: textShape(
          'The cursor to pass as `after` to continue, also after the last page, once there are more events.',
          exampleEventCursor,
        ),
      })
      .describe('The position of the page in the log.'),
  })
  .meta({ id: 'EventList', description: 'A page of the event log.' });

export const registeredDocumentsShape = z
  .object({ documents: z.array(documentShape).readonly().describe('The documents, each once.') })
  .meta({ id: 'RegisteredDocuments', description: 'Documents that are registered now.' });

import * as z from 'zod';
import { type Caller, isBound } from './caller.ts';
import { textShape } from './shapes.ts';
import { timeShape } from './time.ts';

/** In a conversation: beyond it, the position that has not moved for longest gives way. */
export const maxReadPositions = 50;

/** The reader that is a conversation's visitor. Those who act for the visitor see no other's position. */
export const visitorReader = 'visitor';

/** Two of them would be steps in a path. */
const readerPattern = /^(?!\.{1,2}$)[A-Za-z0-9_.:@+-]{1,128}$/;

/** Whether the id of an agent or a bot can be that of a reader. */
export function isReader(id: string | null | undefined): id is string {
  return id != null && readerPattern.test(id);
}

export const readerInput = z
  .string({ error: 'must be a string' })
  .regex(readerPattern, {
    error: 'must be 1 to 128 letters of A to Z, digits and characters of `_.:@+-`, and neither `.` nor `..`',
  })
  .meta({ examples: ['agent-3'] });

/** Readers to choose positions by: more there cannot be, and of more none is looked at. */
export const readersInput = z
  .array(z.string())
  .max(maxReadPositions, { error: `must name at most ${maxReadPositions}` })
  .pipe(z.array(readerInput));

export const readPositionShape = z
  .object({
    reader: textShape('Who has read: an agent’s id in the client’s system, or `visitor`.', 'agent-3'),
    sequence: z.int().min(0).describe('The sequence of the last message that it has read; 0 for none.'),
    readAt: timeShape.describe('When it moved there.'),
  })
  .meta({ id: 'ReadPosition', description: 'How far a reader has read a conversation. It only moves forward.' });

export type ReadPosition = Readonly<z.output<typeof readPositionShape>>;

/** The positions in a conversation, by reader. */
export interface ReadPositions {
  readonly positions: readonly ReadPosition[];
  /** How often positions have moved in the conversation so far, those too that are gone. */
  readonly moves: number;
}

/** Those that the caller may see: who is bound sees the visitor's only, and nothing of other moves. */
export function positionsShownTo(caller: Caller, all: ReadPositions): ReadPositions {
  if (!isBound(caller)) return all;
  const own = all.positions.find(({ reader }) => reader === visitorReader);
  return own === undefined ? { positions: [], moves: 0 } : { positions: [own], moves: own.sequence + 1 };
}

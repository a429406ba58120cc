import { scheduler } from '../../runtime/scheduler.ts';

/** Of long texts, so many bytes are read in one step. */
const bytesPerStep = 1.5 * 1024 * 1024;
/** So many rows are asked for at once. Ten such texts as can be longest are two steps. */
const rowsPerStep = 200;

/** What is numbered 1, 2, 3 … without gaps: from one number to another, both included. */
interface NumberedRange {
  readonly from: number;
  readonly to: number;
}

/** What ranges are read with. */
interface RangeReader<Range, Row, Item> {
  /** The rows of ranges, one range after the other, by ascending number; `range` is the place of each among these. */
  rows(ranges: readonly Range[]): Promise<readonly (Row & { readonly range: number })[]>;
  /** The texts of a row that can be long. */
  textsOf(row: Row): readonly (string | null)[];
  toItem(row: Row): Item;
  /** Called with the bytes of texts that a step has read; what it throws ends the reading. */
  readonly onRead?: ((bytes: number) => void) | undefined;
}

/** Reads the rows of ranges, in steps by turns with other accounts: and memory is asked for before more of it is taken. */
export async function readRanges<Range extends NumberedRange, Row, Item>(
  accountId: string,
  ranges: readonly Range[],
  { rows, textsOf, toItem, onRead = () => {} }: RangeReader<Range, Row, Item>,
): Promise<Item[][]> {
  const found: Item[][] = ranges.map(() => []);
  const all: readonly Range[] = ranges.map((range) => ({ ...range, from: Math.max(1, range.from) }));
  let left = all;
  for (let limit = rowsPerStep; left.length > 0; ) {
    if (left !== all) await scheduler.step(accountId);
    const asked = firstOf(left, limit);
    const counts = asked.map(() => 0);
    let bytes = 0;
    for (const row of await rows(asked)) {
      found.at(row.range - left.length)?.push(toItem(row));
      counts[row.range] = (counts[row.range] ?? 0) + 1;
      for (const text of textsOf(row)) bytes += text === null ? 0 : Buffer.byteLength(text);
    }
    onRead(bytes);
    const last = asked.length - 1;
    const [cut, whole] = [asked[last] as Range, left[last] as Range];
    // Where fewer came than were asked for, there are no more.
    const goesOn = cut.to < whole.to && counts[last] === cut.to - cut.from + 1;
    left = goesOn ? [{ ...whole, from: cut.to + 1 }, ...left.slice(last + 1)] : left.slice(last + 1);
    // Rows of a list tend to be alike: as many as will be about a step.
    const rowCount = counts.reduce((sum, count) => sum + count, 0);
    if (bytes > 0) limit = Math.max(10, Math.min(rowsPerStep, Math.floor((bytesPerStep * rowCount) / bytes)));
  }
  return found;
}

/** The first ranges that have so many numbers together, the last of them cut. */
function firstOf<Range extends NumberedRange>(ranges: readonly Range[], limit: number): Range[] {
  const first: Range[] = [];
  let left = limit;
  for (const range of ranges) {
    if (left <= 0) break;
    const to = Math.min(range.to, range.from + left - 1);
    first.push({ ...range, to });
    left -= Math.max(0, to - range.from + 1);
  }
  return first;
}

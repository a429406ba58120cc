import type { Caller } from '../domain/caller.ts';
import { scheduler } from '../runtime/scheduler.ts';

/** How much of a page is serialised at once, in UTF-16 code units: that takes up to five milliseconds. */
const lengthAtOnce = 1024 * 1024;

/** A page of a list, as REST shows it. */
interface Page<Item> {
  readonly data: readonly Item[];
  readonly pagination: object;
}

export function isPage(body: unknown): body is Page<unknown> {
  return typeof body === 'object' && body !== null && 'pagination' in body;
}

/** The JSON of a page. One with long texts is made in turns of the account. */
export async function pageJson<Item>(
  { data, pagination }: Page<Item>,
  { account }: Caller,
  toJson: (item: Item) => string = (item) => JSON.stringify(item),
): Promise<string> {
  const items: string[] = [];
  let length = 0;
  for (const item of data) {
    if (length > lengthAtOnce) {
      await scheduler.step(account.id);
      length = 0;
    }
    const json = toJson(item);
    items.push(json);
    length += json.length;
  }
  return `{"data":[${items.join(',')}],"pagination":${JSON.stringify(pagination)}}`;
}

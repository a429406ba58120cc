import type { Random } from './random.ts';

/** The values of the placeholders in the lines of a dialogue. */
export interface Facts {
  readonly visitor: string;
  readonly agent: string;
  readonly order: string;
  readonly product: string;
  readonly size: string;
  readonly colour: string;
  readonly amount: string;
  readonly city: string;
  readonly carrier: string;
  readonly day: string;
}

/** A text split at its placeholders: every other part is the name of a fact. */
export type Line = readonly string[];

/** Parses lines with placeholders such as `{order}`, which `say` fills in. */
export function lines(...texts: readonly string[]): readonly Line[] {
  return texts.map((text) => text.split(/\{(\w+)\}/));
}

export function say(line: Line, facts: Facts): string {
  let text = line[0] as string;
  for (let at = 1; at < line.length; at += 2) text += facts[line[at] as keyof Facts] + line[at + 1];
  return text;
}

const products =
  'two-person tent|wool blanket|enamel mug|rain jacket|hiking boots|cast iron pan|linen tablecloth|oak side table|camping stove|daypack|table lamp|ceramic bowl|down sleeping bag|picnic rug|storm lantern|bread knife|canvas tote|thermos flask|folding chair|wall clock'.split(
    '|',
  );
const colours = 'olive|navy|sand|charcoal|rust|cream|forest green|slate'.split('|');
const sizes = 'XS|S|M|L|XL|38|40|42|44'.split('|');
const cities = 'Bristol|Galway|Leeds|Hamburg|Utrecht|Malmö|Lyon|Porto|Boston|Melbourne|Ghent|Turin'.split('|');
const carriers = ['the courier', 'the parcel service', 'the post', 'the carrier'];
const weekdays = 'Monday|Tuesday|Wednesday|Thursday|Friday|Saturday'.split('|');

export function factsFor(random: Random, people: { visitor: string; agent: string }): Facts {
  return {
    ...people,
    order: String(random.integer(10_000, 99_999)),
    product: random.pick(products),
    size: random.pick(sizes),
    colour: random.pick(colours),
    amount: (random.integer(900, 24_900) / 100).toFixed(2),
    city: random.pick(cities),
    carrier: random.pick(carriers),
    day: random.pick(weekdays),
  };
}

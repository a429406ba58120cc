import { guestOf, teamOf } from './people.ts';
import { Random } from './random.ts';
import { formOf, type Step, storyOf } from './story.ts';
import { arrivals } from './timeline.ts';

export interface LifeOptions {
  readonly conversations: number;
  readonly fromMs: number;
  /** What would happen later does not happen, so the newest conversations are still open. */
  readonly toMs: number;
  /** The same seed gives the same people, words and times. */
  readonly seed: number;
}

/** What comes of somebody's coming to the shop. */
export interface Story {
  readonly startMs: number;
  /** In the order of their times. */
  readonly steps: Iterable<Step>;
}

/** All that happens in a shop, story by story, in the order in which they begin: it may be as long as one likes. */
export function* lifeOf({ conversations, fromMs, toMs, seed }: LifeOptions): Generator<Story, void> {
  const agents = teamOf(new Random(seed, -1));
  let arrived = 0;
  for (const startMs of arrivals(new Random(seed, -2), conversations, fromMs, toMs)) {
    const number = arrived++;
    const random = new Random(seed, number);
    // Somebody comes to the shop, often for the first time.
    const guest = guestOf(seed, Math.floor(random.next() * conversations * 0.8));
    const fillsInForm = random.chance(0.02);
    yield { startMs, steps: until(toMs, storyOf(random, startMs, { guest, agents })) };
    if (fillsInForm) {
      const itsRandom = new Random(seed ^ 0x666f726d, number);
      yield { startMs, steps: until(toMs, formOf(itsRandom, startMs, { guest, agents })) };
    }
  }
}

function* until(toMs: number, steps: Iterable<Step>): Generator<Step, void> {
  for (const step of steps) {
    if (step.atMs > toMs) return;
    yield step;
  }
}

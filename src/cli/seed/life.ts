import { guestOf, teamOf } from './people.ts';
import { Random } from './random.ts';
import { formOf, type Step, storyOf } from './story.ts';
import { arrivals } from './timeline.ts';

export interface LifeOptions {
  readonly conversations: number;
  readonly fromMs: number;
  /** Later steps are left out, so the newest conversations are still open. */
  readonly toMs: number;
  /** The same seed gives the same people, words and times. */
  readonly seed: number;
}

/** All that follows from one visit to the shop. */
export interface Story {
  readonly startMs: number;
  /** In chronological order. */
  readonly steps: Iterable<Step>;
}

/** All that happens in a shop, as stories in the order of their starts. Generated lazily, so it can be of any length. */
export function* lifeOf({ conversations, fromMs, toMs, seed }: LifeOptions): Generator<Story, void> {
  const agents = teamOf(new Random(seed, -1));
  let arrived = 0;
  for (const startMs of arrivals(new Random(seed, -2), conversations, fromMs, toMs)) {
    const number = arrived++;
    const random = new Random(seed, number);
    // There are a fifth fewer guests than conversations, so some of them come again.
    const guest = guestOf(seed, Math.floor(random.next() * conversations * 0.8));
    const fillsInForm = random.chance(0.02);
    yield { startMs, steps: until(toMs, storyOf(random, startMs, { guest, agents })) };
    if (fillsInForm) {
      const formRandom = new Random(seed ^ 0x666f726d, number);
      yield { startMs, steps: until(toMs, formOf(formRandom, startMs, { guest, agents })) };
    }
  }
}

function* until(toMs: number, steps: Iterable<Step>): Generator<Step, void> {
  for (const step of steps) {
    if (step.atMs > toMs) return;
    yield step;
  }
}

import { type MetricsSnapshot, metricsText } from '../telemetry/metrics.ts';
import type { Notice, Order } from './workers.ts';

/** How long a worker waits for its turn to write before it tries all the same: the supervisor may have ended. */
const patienceMs = 250;

/** What a worker does for its supervisor. */
interface Duties {
  /** Does from now on what only one should. */
  lead(): void;
  report(): Promise<MetricsSnapshot>;
}

/** What a worker and its supervisor have to do with each other, see `workers.ts`. */
export class Worker {
  readonly turn = new WriteTurn((is) => this.#tell({ of: 'write', is }));
  /** Resolves with what to serve. */
  readonly order: Promise<Extract<Order, { to: 'serve' }>>;
  #duties: Duties | undefined;
  #leads = false;
  #scraping: { readonly text: Promise<string>; readonly show: (text: string) => void } | undefined;

  constructor() {
    this.order = new Promise((resolve) => {
      process.on('message', (order: Order) => {
        if (order.to === 'serve') resolve(order);
        else if (order.to === 'write') this.turn.given();
        else if (order.to === 'yield') this.turn.asked();
        else if (order.to === 'show') this.#scraping?.show(order.text);
        else if (order.to === 'report') void this.#report();
        else {
          this.#leads = true;
          this.#duties?.lead();
        }
      });
    });
    process.once('disconnect', () => void this.#showOwn());
    this.#tell({ of: 'start' });
  }

  /** To be called once the worker serves. */
  listening(port: number, duties: Duties): void {
    this.#duties = duties;
    if (this.#leads) duties.lead(); // it was told before
    this.#tell({ of: 'listening', port });
  }

  /** The metrics of all workers; of this one alone once the supervisor, which collects them, has ended. */
  scrape(): Promise<string> {
    if (this.#scraping === undefined) {
      const { promise: text, resolve: show } = Promise.withResolvers<string>();
      this.#scraping = { text, show };
      void text.then(() => {
        this.#scraping = undefined;
      });
      if (process.connected) this.#tell({ of: 'scrape' });
      else void this.#showOwn();
    }
    return this.#scraping.text;
  }

  /** Lets the process end: as long as it can be told something, it would not. */
  leave(): void {
    if (process.connected) process.disconnect?.();
  }

  async #report(): Promise<void> {
    this.#tell({ of: 'report', metrics: await this.#metrics() });
  }

  async #showOwn(): Promise<void> {
    this.#scraping?.show(await metricsText([await this.#metrics()]));
  }

  async #metrics(): Promise<MetricsSnapshot> {
    return (await this.#duties?.report()) ?? [];
  }

  #tell(notice: Notice): void {
    // If the supervisor has ended, so will this worker, in order: it must not fail at telling it something.
    if (process.connected) process.send?.(notice, undefined, undefined, () => {});
  }
}

/**
 * A worker's turn to write. It keeps it until another one asks, so that who writes alone asks nobody.
 */
class WriteTurn {
  readonly #tell: (is: 'due' | 'done') => void;
  #has = false;
  /** Whether it has asked for the turn, and another one for it. */
  #isDue = false;
  #isAsked = false;
  /** Whether it has waited for the turn in vain: who has it, or the supervisor, stands still. */
  #isLost = false;
  #isWriting = false;
  #begin: (() => void) | undefined;

  constructor(tell: (is: 'due' | 'done') => void) {
    this.#tell = tell;
  }

  /** Waits for the turn, if it is another one's; not again if that was in vain, until it is given. */
  async take(): Promise<void> {
    this.#isWriting = true;
    if (this.#has || this.#isLost || !process.connected) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        this.#isLost = true;
        resolve();
      }, patienceMs);
      this.#begin = () => {
        clearTimeout(timer);
        resolve();
      };
      if (!this.#isDue) this.#tell('due');
      this.#isDue = true;
    });
    this.#begin = undefined;
  }

  /** Whether another one waits for it. */
  get isAsked(): boolean {
    return this.#isAsked;
  }

  /** Leaves the turn to who has asked for it. To be called after each transaction. */
  end(): void {
    this.#isWriting = false;
    if (this.#isAsked) this.#leave();
  }

  given(): void {
    this.#has = true;
    this.#isDue = false;
    this.#isLost = false;
    this.#begin?.();
  }

  asked(): void {
    if (!this.#has) return; // it has left it since
    if (this.#isWriting) this.#isAsked = true;
    else this.#leave();
  }

  #leave(): void {
    this.#has = false;
    this.#isAsked = false;
    this.#tell('done');
  }
}

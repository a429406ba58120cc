import { getHeapStatistics } from 'node:v8';
import {
  AggregatorRegistry,
  Counter,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client';
import type { CallCode, Face, Telemetry } from '../domain/ports.ts';
import type { DeliveryBacklog } from '../domain/storage-port.ts';

/** In seconds. */
const durationBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const attemptBuckets = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
const delayBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5];
const groupBuckets = [1, 2, 4, 8, 16, 32, 64, 128];

const timerMs = 20;

/** Deliveries are counted up to this number, which takes a few milliseconds. */
export const countedTo = 100_000;

/** Values that are read only when metrics are scraped. */
interface State {
  readonly nowMs: number;
  /** Estimated time to process the waiting requests. */
  readonly backlogMs: number;
  /** Writes that wait for their transaction. */
  readonly waitingWrites: number;
  /** Requests refused because of overload. */
  readonly refused: number;
  /** Open sockets and event streams. */
  readonly sessions: number;
  /** Streams and subscriptions following an event log. */
  readonly subscribers: number;
  /** Undefined when the storage could not be read. */
  readonly backlog: DeliveryBacklog | undefined;
}

type Reading = (state: State) => number | undefined;
/** How the values of several processes become one: by default they are added. */
type Joined = 'sum' | 'first' | 'max' | 'min';
type Rows = readonly (readonly [name: string, help: string, value: Reading, joined?: Joined])[];

/** All metrics of a process, as data. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[];

const counters: Rows = [
  ['conversation_service_overload_refusals_total', 'Requests refused because of overload.', ({ refused }) => refused],
  ['process_cpu_seconds_total', 'Processor time used.', cpuSeconds],
];

/** Those of the process have the names that dashboards for Node.js expect. */
const gauges: Rows = [
  [
    'conversation_service_backlog_seconds',
    'Estimated time to process the waiting requests and writes.',
    ({ backlogMs }) => backlogMs / 1_000,
    'max',
  ],
  ['conversation_service_writer_queue', 'Writes waiting for their transaction.', ({ waitingWrites }) => waitingWrites],
  ['conversation_service_sessions', 'Open sockets and event streams.', ({ sessions }) => sessions],
  [
    'conversation_service_subscribers',
    'Streams and subscriptions following an event log.',
    ({ subscribers }) => subscribers,
  ],
  [
    'conversation_service_deliveries_pending',
    `Uncompleted deliveries to enabled webhooks, counted up to ${countedTo}.`,
    ({ backlog }) => backlog?.pending,
    'first',
  ],
  [
    'conversation_service_deliveries_due',
    `Uncompleted deliveries whose next attempt is due and has not begun, counted up to ${countedTo}.`,
    ({ backlog }) => backlog?.due,
    'first',
  ],
  [
    'conversation_service_deliveries_oldest_due_age_seconds',
    'For how long the oldest due delivery has been due; 0 if there is none.',
    oldestDueAgeSeconds,
    'first',
  ],
  ['conversation_service_processes', 'Processes that serve.', () => 1],
  ['process_resident_memory_bytes', 'Resident memory.', residentBytes],
  [
    'process_start_time_seconds',
    'When the process started, or the last of several, in seconds since the epoch.',
    () => performance.timeOrigin / 1_000,
    'max',
  ],
  ['nodejs_heap_size_used_bytes', 'Heap in use.', () => getHeapStatistics().used_heap_size],
  ['nodejs_heap_size_total_bytes', 'Total heap.', () => getHeapStatistics().total_heap_size],
  ['nodejs_external_memory_bytes', 'Memory of buffers outside the heap.', () => getHeapStatistics().external_memory],
];

/** What ended, counted by its outcome, and how long it took. */
interface Tally<Outcome> {
  readonly counts: Map<Outcome, number>;
  readonly seconds: { observe(value: number): void };
}

function count<Outcome>({ counts, seconds }: Tally<Outcome>, outcome: Outcome, durationMs: number): void {
  counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  seconds.observe(durationMs / 1_000);
}

/** The value of a key, created if missing. */
function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

/**
 * The service's metrics, for Prometheus. Labels are the program's own names and HTTP statuses, never anything that a
 * client chooses, so their number is bounded and they contain no client data.
 *
 * Counting is on the path of every request, so the numbers there are kept in maps, and their counters take them over
 * when they are scraped.
 */
export class Metrics implements Telemetry {
  readonly #registry = new Registry();
  readonly #calls = new Map<Face, Map<string, Tally<CallCode>>>();
  readonly #responses = new Map<Face, Tally<number>>();
  readonly #callSeconds: Histogram<'face' | 'operation'>;
  readonly #responseSeconds: Histogram<'face'>;
  readonly #groupSizes: Histogram;
  readonly #groupSeconds: Histogram;
  readonly #attempts: Counter<'result'>;
  readonly #attemptSeconds: Histogram;
  readonly #eventLoopDelay: Histogram;
  #state: State | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor() {
    const registers = [this.#registry];
    const [calls, responses, duration] = [this.#calls, this.#responses, { buckets: durationBuckets, registers }];
    new Counter({
      name: 'conversation_service_operations_total',
      help: 'Calls of operations by outcome; the operation is none where a request did not reach one.',
      labelNames: ['face', 'operation', 'code'],
      registers,
      collect() {
        this.reset();
        for (const [face, operations] of calls)
          for (const [operation, { counts }] of operations)
            for (const [code, number] of counts) this.inc({ face, operation, code }, number);
      },
    });
    this.#callSeconds = new Histogram({
      name: 'conversation_service_operation_duration_seconds',
      help: 'Duration of calls of operations.',
      labelNames: ['face', 'operation'],
      ...duration,
    });
    new Counter({
      name: 'conversation_service_http_responses_total',
      help: 'HTTP responses by status.',
      labelNames: ['face', 'status'],
      registers,
      collect() {
        this.reset();
        for (const [face, { counts }] of responses)
          for (const [status, number] of counts) this.inc({ face, status }, number);
      },
    });
    this.#responseSeconds = new Histogram({
      name: 'conversation_service_http_response_duration_seconds',
      help: 'Time until HTTP responses were ready, for streams until they began.',
      labelNames: ['face'],
      ...duration,
    });
    this.#groupSizes = new Histogram({
      name: 'conversation_service_writer_group_size',
      help: 'Number of writes committed together.',
      buckets: groupBuckets,
      registers,
    });
    this.#groupSeconds = new Histogram({
      name: 'conversation_service_writer_group_duration_seconds',
      help: 'Duration of a group of writes, including the wait for the disk.',
      ...duration,
    });
    this.#attempts = new Counter({
      name: 'conversation_service_webhook_attempts_total',
      help: 'Attempts at webhook deliveries.',
      labelNames: ['result'],
      registers,
    });
    this.#attemptSeconds = new Histogram({
      name: 'conversation_service_webhook_attempt_duration_seconds',
      help: 'Duration of attempts at webhook deliveries.',
      buckets: attemptBuckets,
      registers,
    });
    // Node's own monitor reports quantiles since its last reset, which two scrapers would reset for each other.
    this.#eventLoopDelay = new Histogram({
      name: 'nodejs_eventloop_delay_seconds',
      help: `How late a timer set every ${timerMs} ms fired.`,
      buckets: delayBuckets,
      registers,
    });
    const current = (value: Reading): number | undefined => this.#state && value(this.#state);
    for (const [name, help, value] of counters) {
      const collect = function (this: Counter): void {
        this.reset();
        this.inc(current(value) ?? 0);
      };
      new Counter({ name, help, registers, collect });
    }
    for (const [name, help, value, aggregator = 'sum'] of gauges) {
      const collect = function (this: Gauge): void {
        const number = current(value);
        if (number === undefined) this.remove();
        else this.set(number);
      };
      new Gauge({ name, help, registers, collect, aggregator });
    }
  }

  /** Starts measuring how late timers fire, which shows how long the event loop was blocked. */
  start(): void {
    let dueMs = performance.now() + timerMs;
    this.#timer ??= setInterval(() => {
      const nowMs = performance.now();
      this.#eventLoopDelay.observe(Math.max(0, nowMs - dueMs) / 1_000);
      dueMs = nowMs + timerMs;
    }, timerMs).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  called(face: Face, operation = 'none', code: CallCode, durationMs: number): void {
    const operations = at(this.#calls, face, () => new Map<string, Tally<CallCode>>());
    const newTally = () => ({ counts: new Map(), seconds: this.#callSeconds.labels({ face, operation }) });
    count(at(operations, operation, newTally), code, durationMs);
  }

  answered(face: Face, status: number, durationMs: number): void {
    const newTally = () => ({ counts: new Map(), seconds: this.#responseSeconds.labels({ face }) });
    count(at(this.#responses, face, newTally), status, durationMs);
  }

  attempted(succeeded: boolean, durationMs: number): void {
    this.#attempts.inc({ result: succeeded ? 'success' : 'failure' });
    this.#attemptSeconds.observe(durationMs / 1_000);
  }

  /** The writer has committed a group, or failed to. */
  readonly wrote = (works: number, durationMs: number): void => {
    this.#groupSizes.observe(works);
    this.#groupSeconds.observe(durationMs / 1_000);
  };

  async snapshot(state: State): Promise<MetricsSnapshot> {
    this.#state = state;
    return await this.#registry.getMetricsAsJSON();
  }
}

/** The media type of `metricsText`. */
export const metricsType = Registry.PROMETHEUS_CONTENT_TYPE;

/** The metrics of processes in the text format of Prometheus, each joined into one. */
export async function metricsText(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  return await joined(snapshots).metrics();
}

/** The metrics of processes as those of one. */
export async function mergedMetrics(snapshots: readonly MetricsSnapshot[]): Promise<MetricsSnapshot> {
  return await joined(snapshots).getMetricsAsJSON();
}

function joined(snapshots: readonly MetricsSnapshot[]): Registry {
  return AggregatorRegistry.aggregate(snapshots as MetricObjectWithValues<MetricValue<string>>[][]);
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000_000;
}

/** @returns undefined when file descriptors have run out: the other metrics are needed then more than ever */
function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

function oldestDueAgeSeconds({ backlog, nowMs }: State): number | undefined {
  if (backlog === undefined) return undefined;
  return Math.max(0, nowMs - (backlog.oldestDueAtMs ?? nowMs)) / 1_000;
}

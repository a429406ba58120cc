import { getHeapStatistics } from 'node:v8';
import type { CallCode, Face, Telemetry } from '../domain/ports.ts';
import type { DeliveryBacklog } from '../domain/storage-port.ts';
import { EventLoopDelay } from './event-loop.ts';
import { exposition, type Family, type Sample } from './exposition.ts';
import { Histogram } from './histogram.ts';

/** In seconds. */
const durationBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const attemptBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
const groupBounds = [1, 2, 4, 8, 16, 32, 64, 128];

/** Values that are read only when metrics are scraped. */
export interface State {
  /** Estimated time to process the waiting requests. */
  readonly backlogMs: number;
  /** Requests refused because of overload. */
  readonly refused: number;
  /** Writes waiting for their transaction. */
  readonly waitingWrites: number;
  /** Open sockets and event streams. */
  readonly sessions: number;
  /** Streams and subscriptions following an event log. */
  readonly subscribers: number;
  /** Undefined when the storage could not be read. */
  readonly backlog: DeliveryBacklog | undefined;
}

/** Counts by outcome, and durations. */
class Tally<Result> {
  readonly counts = new Map<Result, number>();
  readonly seconds: Histogram;

  constructor(bounds: readonly number[]) {
    this.seconds = new Histogram(bounds);
  }

  add(result: Result, durationMs: number): void {
    this.counts.set(result, (this.counts.get(result) ?? 0) + 1);
    this.seconds.observe(durationMs / 1_000);
  }
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

const newTally = <Result>() => new Tally<Result>(durationBounds);

/**
 * The service's metrics, for Prometheus. Labels are the program's own names and HTTP statuses, never anything that a
 * client chooses, so their number is bounded and they contain no client data.
 *
 * Counting is on the path of every request, so it is a map lookup and an addition. Text is produced only when scraped.
 */
export class Metrics implements Telemetry {
  readonly #calls = new Map<Face, Map<string, Tally<CallCode>>>();
  readonly #answers = new Map<Face, Tally<number>>();
  readonly #attempts = new Tally<boolean>(attemptBounds);
  readonly #groupSizes = new Histogram(groupBounds);
  readonly #groupSeconds = new Histogram(durationBounds);
  readonly #eventLoopDelay = new EventLoopDelay();

  /** Starts measuring the event loop. */
  start(): void {
    this.#eventLoopDelay.start();
  }

  stop(): void {
    this.#eventLoopDelay.stop();
  }

  called(face: Face, operation: string | undefined, code: CallCode, durationMs: number): void {
    const ofFace = at(this.#calls, face, () => new Map<string, Tally<CallCode>>());
    at(ofFace, operation ?? 'none', newTally<CallCode>).add(code, durationMs);
  }

  answered(face: Face, status: number, durationMs: number): void {
    at(this.#answers, face, newTally<number>).add(status, durationMs);
  }

  attempted(succeeded: boolean, durationMs: number): void {
    this.#attempts.add(succeeded, durationMs);
  }

  /** The writer has committed a group, or failed to. */
  readonly wrote = (works: number, durationMs: number): void => {
    this.#groupSizes.observe(works);
    this.#groupSeconds.observe(durationMs / 1_000);
  };

  /** All metrics in the text format of Prometheus. */
  text(state: State, nowMs: number): string {
    return exposition([
      ...this.#requests(),
      gauge(
        'conversation_service_backlog_seconds',
        'Estimated time to process the waiting requests and writes.',
        state.backlogMs / 1_000,
      ),
      {
        name: 'conversation_service_overload_refusals_total',
        help: 'Requests refused because of overload.',
        type: 'counter',
        samples: [{ value: state.refused }],
      },
      ...this.#storage(state),
      ...this.#deliveries(state, nowMs),
      gauge('conversation_service_sessions', 'Open sockets and event streams.', state.sessions),
      gauge('conversation_service_subscribers', 'Streams and subscriptions following an event log.', state.subscribers),
      ...this.#process(),
    ]);
  }

  #requests(): Family[] {
    const calls = [...this.#calls].flatMap(([face, ofFace]) =>
      [...ofFace].map(([operation, tally]) => ({ labels: { face, operation }, tally })),
    );
    const answers = [...this.#answers].map(([face, tally]) => ({ labels: { face }, tally }));
    return [
      {
        name: 'conversation_service_operations_total',
        help: 'Calls of operations by outcome; the operation is none where a request did not reach one.',
        type: 'counter',
        samples: calls.flatMap(({ labels, tally }) => samplesOf(tally, (code) => ({ ...labels, code }))),
      },
      {
        name: 'conversation_service_operation_duration_seconds',
        help: 'Duration of calls of operations.',
        type: 'histogram',
        histograms: calls.map(({ labels, tally }) => ({ labels, histogram: tally.seconds })),
      },
      {
        name: 'conversation_service_http_responses_total',
        help: 'HTTP responses by status.',
        type: 'counter',
        samples: answers.flatMap(({ labels, tally }) => samplesOf(tally, (status) => ({ ...labels, status }))),
      },
      {
        name: 'conversation_service_http_response_duration_seconds',
        help: 'Time until HTTP responses were ready, for streams until they began.',
        type: 'histogram',
        histograms: answers.map(({ labels, tally }) => ({ labels, histogram: tally.seconds })),
      },
    ];
  }

  #storage({ waitingWrites }: State): Family[] {
    return [
      gauge('conversation_service_writer_queue', 'Writes waiting for their transaction.', waitingWrites),
      {
        name: 'conversation_service_writer_group_size',
        help: 'Number of writes committed together.',
        type: 'histogram',
        histograms: [{ histogram: this.#groupSizes }],
      },
      {
        name: 'conversation_service_writer_group_duration_seconds',
        help: 'Duration of a group of writes, including the wait for the disk.',
        type: 'histogram',
        histograms: [{ histogram: this.#groupSeconds }],
      },
    ];
  }

  #deliveries({ backlog }: State, nowMs: number): Family[] {
    return [
      ...(backlog === undefined ? [] : gaugesOf(backlog, nowMs)),
      {
        name: 'conversation_service_webhook_attempts_total',
        help: 'Attempts at webhook deliveries.',
        type: 'counter',
        samples: samplesOf(this.#attempts, (succeeded) => ({ result: succeeded ? 'success' : 'failure' })),
      },
      {
        name: 'conversation_service_webhook_attempt_duration_seconds',
        help: 'Duration of attempts at webhook deliveries.',
        type: 'histogram',
        histograms: [{ histogram: this.#attempts.seconds }],
      },
    ];
  }

  /** Under the names that Node.js dashboards expect. */
  #process(): Family[] {
    const { user, system } = process.cpuUsage();
    const heap = getHeapStatistics();
    const rss = residentBytes();
    return [
      {
        name: 'nodejs_eventloop_delay_seconds',
        help: 'How late a timer set every 20 ms fired.',
        type: 'histogram',
        histograms: [{ histogram: this.#eventLoopDelay.seconds }],
      },
      {
        name: 'process_cpu_seconds_total',
        help: 'Processor time used.',
        type: 'counter',
        samples: [{ value: (user + system) / 1_000_000 }],
      },
      ...(rss === undefined ? [] : [gauge('process_resident_memory_bytes', 'Resident memory.', rss)]),
      gauge(
        'process_start_time_seconds',
        'When the process started, in seconds since the epoch.',
        performance.timeOrigin / 1_000,
      ),
      gauge('nodejs_heap_size_used_bytes', 'Heap in use.', heap.used_heap_size),
      gauge('nodejs_heap_size_total_bytes', 'Total heap.', heap.total_heap_size),
      gauge('nodejs_external_memory_bytes', 'Memory of buffers outside the heap.', heap.external_memory),
    ];
  }
}

/** @returns undefined when file descriptors have run out: the other metrics are needed then more than ever */
function residentBytes(): number | undefined {
  try {
    return process.memoryUsage.rss();
  } catch {
    return undefined;
  }
}

function gaugesOf(
  { pending, due, oldestDueAtMs = Number.POSITIVE_INFINITY, countedTo }: DeliveryBacklog,
  nowMs: number,
): Family[] {
  return [
    gauge(
      'conversation_service_deliveries_pending',
      `Uncompleted deliveries to enabled webhooks, counted up to ${countedTo}.`,
      pending,
    ),
    gauge(
      'conversation_service_deliveries_due',
      `Uncompleted deliveries whose next attempt is due and has not begun, counted up to ${countedTo}.`,
      due,
    ),
    gauge(
      'conversation_service_deliveries_oldest_due_age_seconds',
      'For how long the oldest due delivery has been due; 0 if there is none.',
      Math.max(0, nowMs - oldestDueAtMs) / 1_000,
    ),
  ];
}

function gauge(name: string, help: string, value: number): Family {
  return { name, help, type: 'gauge', samples: [{ value }] };
}

function samplesOf<Result>(
  { counts }: Tally<Result>,
  labelsOf: (result: Result) => NonNullable<Sample['labels']>,
): Sample[] {
  return [...counts].map(([result, value]) => ({ labels: labelsOf(result), value }));
}

import { getHeapStatistics } from 'node:v8';
import type { CallCode, Face, Telemetry } from '../domain/ports.ts';
import type { DeliveryBacklog } from '../domain/storage-port.ts';
import { EventLoopDelay } from './event-loop.ts';
import { exposition, type Family, type Sample } from './exposition.ts';
import { Histogram } from './histogram.ts';

/** From half a millisecond to the longest that a request may take, in seconds. */
const durationBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const attemptBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15];
const groupBounds = [1, 2, 4, 8, 16, 32, 64, 128];

/** What is looked up only when somebody asks. */
export interface State {
  /** How long it would take to work off what waits. */
  readonly backlogMs: number;
  /** Requests that were refused because that was too long. */
  readonly refused: number;
  /** Writes that wait for their turn. */
  readonly waitingWrites: number;
  /** Sockets and event streams that are open. */
  readonly sessions: number;
  /** Those who follow a log. */
  readonly subscribers: number;
  /** Undefined when the storage could not tell. */
  readonly backlog: DeliveryBacklog | undefined;
}

/** How often something was done, by what came of it, and how long it took. */
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

/** Makes what there is none of yet. */
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
 * What the service counts of its own work, for Prometheus. Labels are names of the program's own and statuses of HTTP,
 * never anything that a client can choose, so there is a bounded number of them, and nothing of anybody's data.
 *
 * Counting is on the path of every request, so it is a look into a map and an addition; text is made only when
 * somebody asks for it.
 */
export class Metrics implements Telemetry {
  readonly #calls = new Map<Face, Map<string, Tally<CallCode>>>();
  readonly #answers = new Map<Face, Tally<number>>();
  readonly #attempts = new Tally<boolean>(attemptBounds);
  readonly #groupSizes = new Histogram(groupBounds);
  readonly #groupSeconds = new Histogram(durationBounds);
  readonly #eventLoopDelay = new EventLoopDelay();

  /** Begins to watch the event loop. */
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

  /** The writer has committed a group, or has failed to. */
  readonly wrote = (works: number, durationMs: number): void => {
    this.#groupSizes.observe(works);
    this.#groupSeconds.observe(durationMs / 1_000);
  };

  /** Everything, in the text format of Prometheus. */
  text(state: State, nowMs: number): string {
    return exposition([
      ...this.#requests(),
      gauge(
        'conversation_service_backlog_seconds',
        'How long it would take to work off the requests that wait.',
        state.backlogMs / 1_000,
      ),
      {
        name: 'conversation_service_overload_refusals_total',
        help: 'Requests that were refused because too much waited already.',
        type: 'counter',
        samples: [{ value: state.refused }],
      },
      ...this.#storage(state),
      ...this.#deliveries(state, nowMs),
      gauge('conversation_service_sessions', 'Sockets and event streams that are open.', state.sessions),
      gauge(
        'conversation_service_subscribers',
        'Streams and subscriptions that follow an event log.',
        state.subscribers,
      ),
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
        help: 'Calls of operations by what they ended with; the operation is none where a request did not come to one.',
        type: 'counter',
        samples: calls.flatMap(({ labels, tally }) => samplesOf(tally, (code) => ({ ...labels, code }))),
      },
      {
        name: 'conversation_service_operation_duration_seconds',
        help: 'How long calls of operations took.',
        type: 'histogram',
        histograms: calls.map(({ labels, tally }) => ({ labels, histogram: tally.seconds })),
      },
      {
        name: 'conversation_service_http_responses_total',
        help: 'Answers over HTTP by their status.',
        type: 'counter',
        samples: answers.flatMap(({ labels, tally }) => samplesOf(tally, (status) => ({ ...labels, status }))),
      },
      {
        name: 'conversation_service_http_response_duration_seconds',
        help: 'How long answers over HTTP took to make, of streams until they began.',
        type: 'histogram',
        histograms: answers.map(({ labels, tally }) => ({ labels, histogram: tally.seconds })),
      },
    ];
  }

  #storage({ waitingWrites }: State): Family[] {
    return [
      gauge('conversation_service_writer_queue', 'Writes that wait for their turn.', waitingWrites),
      {
        name: 'conversation_service_writer_group_size',
        help: 'How many writes were committed together.',
        type: 'histogram',
        histograms: [{ histogram: this.#groupSizes }],
      },
      {
        name: 'conversation_service_writer_group_duration_seconds',
        help: 'How long a group of writes took, the wait for the disk included.',
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
        help: 'Attempts to send to webhooks.',
        type: 'counter',
        samples: samplesOf(this.#attempts, (succeeded) => ({ result: succeeded ? 'success' : 'failure' })),
      },
      {
        name: 'conversation_service_webhook_attempt_duration_seconds',
        help: 'How long attempts to send to webhooks took.',
        type: 'histogram',
        histograms: [{ histogram: this.#attempts.seconds }],
      },
    ];
  }

  /** Under the names that dashboards for Node.js know. */
  #process(): Family[] {
    const { user, system } = process.cpuUsage();
    const heap = getHeapStatistics();
    const rss = residentBytes();
    return [
      {
        name: 'nodejs_eventloop_delay_seconds',
        help: 'How late a timer came that was set every 20 ms.',
        type: 'histogram',
        histograms: [{ histogram: this.#eventLoopDelay.seconds }],
      },
      {
        name: 'process_cpu_seconds_total',
        help: 'Processor time that was used.',
        type: 'counter',
        samples: [{ value: (user + system) / 1_000_000 }],
      },
      ...(rss === undefined ? [] : [gauge('process_resident_memory_bytes', 'Memory that is held.', rss)]),
      gauge('process_start_time_seconds', 'When the process began.', performance.timeOrigin / 1_000),
      gauge('nodejs_heap_size_used_bytes', 'Heap that is in use.', heap.used_heap_size),
      gauge('nodejs_heap_size_total_bytes', 'Heap that is held.', heap.total_heap_size),
      gauge('nodejs_external_memory_bytes', 'Memory of buffers beside the heap.', heap.external_memory),
    ];
  }
}

/** @returns undefined when no file can be opened to read it from: the other numbers are wanted then more than ever */
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
      `Deliveries to enabled webhooks that are not done, counted up to ${countedTo}.`,
      pending,
    ),
    gauge(
      'conversation_service_deliveries_due',
      `Those of them whose next attempt is due and has not begun, counted up to ${countedTo}.`,
      due,
    ),
    gauge(
      'conversation_service_deliveries_oldest_due_age_seconds',
      'For how long the first of these has been due; 0 when there is none.',
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

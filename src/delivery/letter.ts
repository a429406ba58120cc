/** What is sent in one attempt. It goes to another thread, so it is plain data. */
export interface Letter {
  readonly url: string;
  /** The event's id, by which a receiver knows a repeat. */
  readonly id: string;
  /** When the attempt is made, in milliseconds. */
  readonly sentMs: number;
  /** JSON. */
  readonly body: string;
  /** Those that sign it: `whsec_` and the key in base64, the newest first. */
  readonly secrets: readonly string[];
  /** The trace that it is part of (W3C Trace Context). */
  readonly traceparent?: string | undefined;
}

/** What became of one attempt. */
export interface Outcome {
  /** The status of the answer; null when there was none. */
  readonly status: number | null;
  /** The beginning of the answer's body, as text; null when there was no answer. */
  readonly body: string | null;
  /** What went wrong, beside a status that is no success; null when nothing did. */
  readonly error: string | null;
  /** How long it took, in milliseconds. */
  readonly durationMs: number;
  /** How long the receiver asks to be left alone. */
  readonly retryAfterMs?: number | undefined;
  /** It failed for want of something on this side: that says nothing of the receiver. */
  readonly isOurs?: boolean;
}

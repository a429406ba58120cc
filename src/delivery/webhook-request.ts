/** The request of one delivery attempt. It is passed to a worker thread, so it is plain data. */
export interface WebhookRequest {
  readonly url: string;
  /** The event's id, by which a receiver recognises a repeat. */
  readonly id: string;
  /** The time of the attempt, in epoch milliseconds. */
  readonly sentMs: number;
  /** JSON. */
  readonly body: string;
  /** The signing secrets: `whsec_` and the key in base64, newest first. */
  readonly secrets: readonly string[];
  /** The trace that the attempt belongs to (W3C Trace Context). */
  readonly traceparent?: string | undefined;
}

/** The result of one attempt. */
export interface Outcome {
  /** The response status; null if there was no response. */
  readonly status: number | null;
  /** The beginning of the response body as text; null if there was no response. */
  readonly body: string | null;
  /** A description of the failure; null if there is nothing to add to the status. */
  readonly error: string | null;
  readonly durationMs: number;
  /** The delay that the receiver asked for. */
  readonly retryAfterMs?: number | undefined;
  /** Whether the cause was on this machine, such as a lack of file descriptors: this says nothing about the receiver. */
  readonly isLocalFailure?: boolean;
}

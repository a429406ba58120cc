/** A failure that the operator can fix: reported as its message alone, without a stack. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}

/** What an error says. That of several attempts to connect says nothing but what it holds. */
export function withoutStop(error: Error): string {
  const [first = error] = error instanceof AggregateError ? (error.errors as Error[]) : [];
  return first.message.replace(/\.$/, '');
}

/** A failure that the operator can fix: reported as its message alone, without a stack. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';

  constructor(message: string, cause?: unknown) {
    super(message, { cause });
  }
}

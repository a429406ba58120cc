import type { GraphQLError } from 'graphql';
import type { DomainError, ErrorCode } from '../domain/errors.ts';
import type { FaceParts } from '../http/plugin.ts';
import type { RequestContext } from '../http/request-context.ts';
import { isUncounted } from './context.ts';
import { presentError } from './errors.ts';
import { asGraphQLError } from './requests.ts';

/** The parts of a result from which its errors are presented. */
interface Result {
  readonly data?: unknown;
  readonly errors?: readonly unknown[] | undefined;
}

/** A result over HTTP with its errors in the form that clients may see. Trouble is logged and counted. */
export function presentResult<R extends Result>(
  result: R,
  http: RequestContext,
  { requestLog, telemetry }: Pick<FaceParts, 'requestLog' | 'telemetry'>,
): R {
  const { errors } = result;
  if (errors === undefined) return result;
  const { requestId } = http;
  const onTrouble = (error: DomainError): void => {
    requestLog.failed(http, error.cause ?? error);
    // A request that has called no operation is counted as a whole, when it is complete.
    if (http.operation !== undefined && isUncounted(error)) telemetry.called('graphql', undefined, error.code, 0);
  };
  const presented = errors.map(asGraphQLError);
  const requestFailed = !('data' in result) && !areOfSubscription(presented);
  const shown = presented.map((error) => presentError(error, { requestId, requestFailed, onTrouble }));
  http.code ??= shown[0]?.extensions['code'] as ErrorCode;
  return { ...result, errors: shown };
}

/** Whether errors are those of a subscription's field, which had begun to run, rather than of the whole request. */
function areOfSubscription(errors: readonly GraphQLError[]): boolean {
  return errors.some(({ path }) => path !== undefined);
}

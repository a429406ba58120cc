import { Credential, type CredentialSource } from './credential.ts';
import { partsOf, type TypedDocument } from './document.ts';
import { errorOfGraphQL, errorOfResponse, isResult, mayPass, ServiceError } from './errors.ts';
import { type EventOfSocket, followSocket, type SocketFollowOptions } from './follow-socket.ts';
import { type FollowOptions, followStream } from './follow-stream.ts';
import { newKey } from './key.ts';
import { type OperationName, operations } from './operations.ts';
import type { Event, Input, Item, ListName, Output } from './types.ts';
import { backOffMs, wait, within } from './waiting.ts';

export interface ClientOptions {
  /** The address of the service, such as `https://chat.example`. */
  readonly url: string;
  readonly credential: CredentialSource;
  /**
   * How long a call waits at most in all, for an answer, a limit or a service that is away, before it fails. By default 60 s.
   * Each answer has 10 s at least.
   */
  readonly maxWaitSeconds?: number;
  /** Instead of the global one. */
  readonly fetch?: typeof fetch;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  /**
   * Of operations that can be repeated under a key. By default each call has a new one, so that it can be sent again when
   * its answer was lost. Give your own to repeat a call in another process.
   */
  readonly idempotencyKey?: string;
  /** The version that the conversation must still have: otherwise nothing is changed, and the error is VERSION_CONFLICT. */
  readonly ifVersion?: number;
}

/** What each answer may take, however soon a call gives up: not all of them come at once. */
const leastAnswerMs = 10_000;

/** What calls need of a client. */
export interface Transport {
  readonly url: string;
  readonly credential: Credential;
  readonly fetch: typeof fetch;
}

/** Calls the service, waits where it says so, and follows its events. */
export class Client {
  readonly #transport: Transport;
  readonly #maxWaitMs: number;

  constructor({ url, credential, maxWaitSeconds = 60, fetch: own = fetch }: ClientOptions) {
    // Nothing could be sent there, which would look like a service that is away, and be waited for.
    if (!/^(https?:\/)?\/|^$/i.test(url)) throw new TypeError(`The url must begin with https:// or http://: ${url}`);
    this.#transport = {
      url: url.replace(/\/$/, ''),
      credential: new Credential(credential),
      fetch: own.bind(globalThis),
    };
    this.#maxWaitMs = maxWaitSeconds * 1_000;
  }

  /**
   * Calls an operation through REST. Parameters of path, query and body are given together.
   * @throws ServiceError, or what `fetch` throws while the service cannot be reached
   */
  async call<Name extends OperationName>(
    name: Name,
    ...[input = {} as Input<Name>, options = {}]: CallArguments<Name>
  ): Promise<Output<Name>> {
    const { method, path, repeatable } = operations[name] as (typeof operations)[OperationName] & { repeatable?: true };
    const { url, rest } = addressOf(path, input);
    const headers: Record<string, string> = {};
    const key = options.idempotencyKey ?? (repeatable === true ? newKey() : undefined);
    if (key !== undefined) headers['Idempotency-Key'] = key;
    if (options.ifVersion !== undefined) headers['If-Match'] = `"${options.ifVersion}"`;
    const hasBody = method === 'POST' || method === 'PUT' || method === 'PATCH';
    if (hasBody) headers['Content-Type'] = 'application/json';
    const answer = await this.#send(`/v1${url}${hasBody ? '' : queryOf(rest)}`, {
      request: { method, headers, ...(hasBody && { body: JSON.stringify(rest) }) },
      isSafe: method === 'GET' || method === 'PUT' || key !== undefined,
      signal: options.signal,
    });
    return (answer ? JSON.parse(answer) : undefined) as Output<Name>;
  }

  /** The items of a list, page by page, to its end. */
  async *list<Name extends ListName>(
    name: Name,
    input: Input<Name> = {} as Input<Name>,
    options: Pick<CallOptions, 'signal'> = {},
  ): AsyncGenerator<Item<Name>, void> {
    for (let after: string | null | undefined; after !== null; ) {
      const given = after ? { ...input, offset: undefined, after } : input;
      const page = (await this.call(name, ...([given, options] as unknown as CallArguments<Name>))) as {
        readonly data: readonly Item<Name>[];
        readonly pagination: { readonly hasMore: boolean; readonly nextCursor: string | null };
      };
      yield* page.data;
      after = page.pagination.hasMore ? page.pagination.nextCursor : null;
    }
  }

  /**
   * Runs a query or a mutation of GraphQL: a text, or a document whose types its result and its variables have. A document
   * that has an id is called by it, and so is `{ documentId }`. Give mutations an `idempotencyKey` in their input, and say
   * that they have one, if they should be sent again when their answer was lost.
   * @throws ServiceError for the first error in the response
   */
  async graphql<Data = unknown, Variables = object>(
    document: string | TypedDocument<Data, Variables>,
    ...[variables, options = {}]: GraphQLArguments<Variables>
  ): Promise<Data> {
    const { sent, isQuery } = partsOf(document);
    const answer = await this.#send('/graphql', {
      request: {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Accept: 'application/graphql-response+json' },
        body: JSON.stringify({ ...sent, variables }),
      },
      isSafe: options.isRepeatable ?? isQuery,
      signal: options.signal,
    });
    const { data, errors } = JSON.parse(answer);
    if (errors) throw errorOfGraphQL(errors);
    return data;
  }

  /**
   * The events after a cursor, or from now on, for ever: across restarts, lost connections and renewed tokens, without a
   * gap or a repetition. Over Server-Sent Events they are as REST shows them.
   * @throws ServiceError with the code CURSOR_EXPIRED when the log no longer reaches back that far
   */
  follow(options?: FollowOptions): AsyncGenerator<Event, void>;
  /** Over a WebSocket they have the fields that `select` asks for. It needs the package `graphql-ws`. */
  follow<Selected = EventOfSocket>(
    options: SocketFollowOptions & { readonly over: 'socket' },
  ): AsyncGenerator<Selected & EventOfSocket, void>;
  follow(options: FollowOptions & { readonly over?: 'socket' } = {}): AsyncGenerator<unknown, void> {
    return options.over === 'socket' ? followSocket(this.#transport, options) : followStream(this.#transport, options);
  }

  /**
   * Sends a request, again after the time that the service asks for, or when it could not be reached.
   * @returns the text of the answer, which can be lost like the rest of it
   */
  async #send(path: string, { request, isSafe, signal }: Sending): Promise<string> {
    const { url, credential, fetch: send } = this.#transport;
    const giveUpMs = performance.now() + this.#maxWaitMs; // the clock may be set meanwhile
    let authorization = '';
    const attempt = async (own: AbortSignal): Promise<string | ServiceError> => {
      authorization = await credential.authorization();
      const headers = { ...request.headers, Authorization: authorization };
      const response = await send(url + path, { ...request, headers, signal: own });
      // What has no content is not JSON.
      const isDone = response.status === 204 || isResult(response, 'json');
      return isDone ? await response.text() : await errorOfResponse(response);
    };
    for (let failures = 0, hasRenewed = false; ; failures++) {
      let waitMs: number | undefined;
      let failure: unknown;
      try {
        const answer = await within(Math.max(giveUpMs - performance.now(), leastAnswerMs), signal, attempt);
        if (!(answer instanceof ServiceError)) return answer;
        failure = answer;
        if (answer.code === 'UNAUTHENTICATED' && credential.isRenewable && !hasRenewed) {
          credential.renew(authorization);
          hasRenewed = true;
          waitMs = 0;
        } else if (mayPass(answer)) {
          // Nothing was done, unless a proxy has answered, or the service says that it may have been.
          const isUndone = answer.requestId !== undefined && !answer.outcomeUnknown;
          if (isUndone || isSafe) waitMs = backOffMs(failures, answer.retryAfterSeconds);
        }
      } catch (error) {
        failure = error;
        if (isSafe && !signal?.aborted && mayPass(error)) waitMs = backOffMs(failures);
      }
      if (waitMs === undefined || performance.now() + waitMs > giveUpMs) throw failure;
      if (waitMs > 0) await wait(waitMs, signal);
    }
  }
}

/** The input may be left out where nothing of it is required. */
export type CallArguments<Name extends OperationName> =
  object extends Input<Name>
    ? [input?: Input<Name>, options?: CallOptions]
    : [input: Input<Name>, options?: CallOptions];

export interface GraphQLOptions extends Pick<CallOptions, 'signal'> {
  /** Whether it can be sent again when its answer was lost. By default only what is surely a query. */
  readonly isRepeatable?: boolean;
}

/** The variables may be left out where none is required. */
export type GraphQLArguments<Variables> =
  Record<never, never> extends Variables
    ? [variables?: Variables, options?: GraphQLOptions]
    : [variables: Variables, options?: GraphQLOptions];

interface Sending {
  readonly request: { readonly method: string; readonly headers: Record<string, string>; readonly body?: string };
  /** Whether it may be sent again when it is unknown whether it was done. */
  readonly isSafe: boolean;
  readonly signal: AbortSignal | undefined;
}

/** Puts parameters into a path. @returns the rest of them, too */
function addressOf(path: string, input: object): { url: string; rest: Record<string, unknown> } {
  const rest: Record<string, unknown> = { ...input };
  const url = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest[name];
    delete rest[name];
    return encodeURIComponent(String(value));
  });
  return { url, rest };
}

export function queryOf(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value != null);
  // Repeated, because a value may have a comma. An empty list is sent, to be refused as it is everywhere.
  const pairs = given.flatMap(([name, value]) =>
    (Array.isArray(value) && value.length > 0 ? value : [value]).map((each) => [name, `${each}`]),
  );
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs)}`;
}

import type { Caller } from '../domain/caller.ts';
import { DomainError } from '../domain/errors.ts';
import type { Ports } from '../domain/ports.ts';
import type { FaceParts } from '../http/plugin.ts';
import { problemReply } from '../http/problem.ts';
import type { RequestContext } from '../http/request-context.ts';
import type { Handler } from './protocol.ts';
import { callTool, type Tool, toolsFor } from './tools.ts';

/** Errors of the whole request, as at the door: waiting or another credential may help, a model cannot. */
const ofRequest: readonly string[] = ['UNAUTHENTICATED', 'UNAVAILABLE'];

export interface ExchangeOptions extends Pick<FaceParts, 'admission' | 'requestLog'> {
  readonly tools: ReadonlyMap<string, Tool>;
  readonly ports: Ports;
}

/** One request of an admitted caller, and what its message has come to. */
export class Exchange implements Handler {
  /** Why the whole request is refused, if it is. */
  refusal: DomainError | undefined;
  readonly #options: ExchangeOptions;
  readonly #http: RequestContext;
  readonly #caller: Caller;
  readonly #message: { readonly params?: { readonly arguments?: object } };

  constructor(options: ExchangeOptions, http: RequestContext, caller: Caller, message: object) {
    this.#options = options;
    this.#http = http;
    this.#caller = caller;
    this.#message = message;
  }

  list() {
    return toolsFor(this.#caller, this.#options.tools).map(({ description }) => description);
  }

  call(name: string) {
    const tool = this.#options.tools.get(name);
    return tool && this.#call(tool);
  }

  /** Never rejects: the library would show the error as it is. */
  async #call(tool: Tool) {
    const { ports, admission, requestLog } = this.#options;
    this.#http.operation = tool.description.name;
    try {
      const text = await callTool(tool, {
        ports,
        caller: this.#caller,
        // As it was sent: the library's copy lacks a key `__proto__`, which has to be refused.
        given: this.#message.params?.arguments ?? {},
        refuseLate: () => admission.refuseLate(this.#http),
      });
      return { content: [{ type: 'text' as const, text }] };
    } catch (error) {
      if (error instanceof DomainError && ofRequest.includes(error.code)) {
        this.refusal = error;
        return { content: [] };
      }
      const { body: text } = problemReply(requestLog.noted(error, this.#http), this.#http);
      return { isError: true, content: [{ type: 'text' as const, text }] };
    }
  }
}

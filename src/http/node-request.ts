interface Init {
  readonly method?: string;
  readonly headers?: HeadersInit;
  readonly signal?: AbortSignal;
}

/**
 * The Request of the Fetch standard that Yoga makes of each request of Node's. Most requests are answered without a look
 * at it, so headers are converted when somebody looks. It has no body: `body.ts` reads that from Node's request.
 */
class NodeRequest {
  readonly url: string;
  /** HEAD is a GET whose response Node sends without its body; Yoga does not know HEAD. */
  readonly method: string;
  readonly signal: AbortSignal | undefined;
  readonly #headersInit: HeadersInit | undefined;
  #headers: Headers | undefined;

  /** @param url with the `Host` of the client, which may form no URL: its place is taken by a host that does */
  constructor(url: string, { method = 'GET', headers, signal }: Init = {}) {
    this.url = `http://localhost${url.slice(url.indexOf('/', 'https://'.length))}`;
    this.method = method === 'HEAD' ? 'GET' : method;
    this.signal = signal;
    this.#headersInit = headers;
  }

  get headers(): Headers {
    this.#headers ??= new Headers(this.#headersInit);
    return this.#headers;
  }
}

/** In the type that Yoga asks for. */
export const RequestOfNode = NodeRequest as unknown as typeof Request;

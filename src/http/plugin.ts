import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Plugin } from 'graphql-yoga';
import type { Logger } from 'pino';
import type { Admission } from '../access/admission.ts';
import { isPreflight, type Origins, preflightHeaders } from '../access/origins.ts';
import type { Sessions } from '../access/sessions.ts';
import type { Telemetry } from '../domain/ports.ts';
import { RequestContext } from './request-context.ts';
import type { RequestLog } from './request-log.ts';
import type { Responder } from './respond.ts';
import type { ConnectionTimings } from './timings.ts';

/** What every face is made of, besides the ports of its operations. */
export interface FaceParts {
  readonly admission: Admission;
  readonly sessions: Sessions;
  readonly timings: ConnectionTimings;
  readonly log: Logger;
  readonly requestLog: RequestLog;
  readonly responder: Responder;
  readonly telemetry: Telemetry;
}

/** What Yoga passes to the hooks of its plugins with each request. */
export interface ServerContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Set by the first plugin. */
  http: RequestContext;
}

/** A plugin that answers HTTP requests. */
export type HttpPlugin = Plugin<object, ServerContext>;

/**
 * Ends Yoga's part of a request that was answered on Node's own response, which is faster than a Response of the Fetch
 * standard. To be passed to `endResponse` when all has been written.
 */
export const answered = new Response(null);

/** Makes the context of each request, and answers the preflights of browsers. */
export function useRequestContext(origins: Origins, responder: Responder): HttpPlugin {
  async function fromPage(http: RequestContext, origin: string, endResponse: (response: Response) => void) {
    try {
      if (await origins.isListed({ origin })) http.listedOrigin = origin;
    } catch {
      // The storage fails, which the page may be told only if the server's own list has it.
    }
    if (!isPreflight(http.req) || http.fault !== undefined) return;
    await responder.send(http, {
      status: 204,
      headers: http.listedOrigin === undefined ? {} : { ...preflightHeaders },
    });
    endResponse(answered);
  }

  return {
    onRequest({ serverContext, endResponse }) {
      const { req, res } = serverContext;
      const http = new RequestContext(req, res);
      serverContext.http = http;
      const { origin } = req.headers;
      return origin === undefined ? undefined : fromPage(http, origin, endResponse);
    },
  };
}

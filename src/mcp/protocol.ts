import type { AuthInfo, CallToolResult, McpServer, Tool } from '@modelcontextprotocol/server';

/** What answers one message of a client. */
export interface Handler {
  list(): Tool[];
  /** Undefined for an unknown tool. */
  call(name: string): Promise<CallToolResult> | undefined;
}

/** Answers the message of a request, of whichever revision of the protocol it is; there are no sessions. */
export type Protocol = (request: Request, message: object, handler: Handler) => Promise<Response>;

interface ServerDescription {
  readonly name: string;
  readonly version: string;
  readonly instructions: string;
}

/** Loads the library, which a start does not need. */
export async function loadProtocol({ instructions, ...info }: ServerDescription): Promise<Protocol> {
  const sdk = await import('@modelcontextprotocol/server');

  function serverOf(handler: Handler): McpServer {
    const made = new sdk.McpServer(info, { capabilities: { tools: { listChanged: false } }, instructions });
    // Tools are not registered: the library would check what is given in words of its own.
    made.server.setRequestHandler('tools/list', () => ({ tools: handler.list() }));
    made.server.setRequestHandler('tools/call', ({ params: { name } }) => {
      const result = handler.call(name);
      if (result !== undefined) return result;
      throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, `There is no tool \`${name.slice(0, 100)}\`.`);
    });
    return made;
  }

  const modern = sdk.createMcpHandler(({ authInfo }) => serverOf(handlerIn(authInfo)), {
    legacy: 'reject',
    maxSubscriptions: 0, // a stream would outlive its credential; the event log has those that do not
    keepAliveMs: 0,
  });

  return async (request, message, handler) => {
    const parsed = { parsedBody: message };
    if (!(await sdk.isLegacyRequest(request, message))) {
      return await modern.fetch(request, { ...parsed, authInfo: withHandler(handler) });
    }
    const server = serverOf(handler);
    const transport = new sdk.WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true, keepAliveMs: 0 });
    await server.connect(transport);
    try {
      return await transport.handleRequest(request, parsed);
    } finally {
      await server.close();
    }
  };
}

// The library hands `authInfo` on to where servers are made, and looks at nothing in it.

function withHandler(handler: Handler): AuthInfo {
  return { token: '', clientId: '', scopes: [], extra: { handler } };
}

function handlerIn(authInfo: AuthInfo | undefined): Handler {
  return authInfo?.extra?.['handler'] as Handler;
}

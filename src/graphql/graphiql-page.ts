import { parentPort } from 'node:worker_threads';
import { gzipSync } from 'node:zlib';
import { renderGraphiQL } from '@graphql-yoga/render-graphiql';

// A worker thread that renders the GraphiQL page and exits. The library holds the page as text several times over,
// which would otherwise stay in the memory of the service.

/** The page in the two encodings that it is sent in. */
export interface MadePage {
  readonly plain: Uint8Array<ArrayBuffer>;
  readonly zipped: Uint8Array<ArrayBuffer>;
}

const welcomeQuery = `# Put your API key under "Headers" below: { "Authorization": "Bearer cs_…" }
{
  account { name plan rateLimit { remaining resetAt } }
  conversations(first: 5) {
    totalCount
    nodes { id status subject messages(last: 1) { nodes { sender content } } }
  }
}
`;

const plain = new TextEncoder().encode(renderGraphiQL({ title: 'Conversation service', defaultQuery: welcomeQuery }));
const zipped = new Uint8Array(gzipSync(plain));
parentPort?.postMessage({ plain, zipped } satisfies MadePage, [plain.buffer, zipped.buffer]);

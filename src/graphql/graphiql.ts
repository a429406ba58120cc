import { Worker } from 'node:worker_threads';
import { compressed, formFor, html, type Page } from '../http/page.ts';
import { threadModule } from '../layout.ts';
import { lazily } from '../runtime/lazily.ts';
import type { MadePage } from './graphiql-page.ts';

// The GraphiQL page, which needs no credential. It is a single file of nine megabytes, so it is rendered once, and all
// responses share its bytes.

/** The policy of the other pages, plus what GraphiQL runs, all of it inline, and its calls to the service. */
const policy = [
  "default-src 'none'",
  "script-src 'unsafe-inline'",
  'worker-src blob:',
  "style-src 'unsafe-inline'",
  'img-src data:',
  'font-src data:',
  "connect-src 'self'",
  "frame-ancestors 'none'",
].join('; ');

const headers = { 'Content-Security-Policy': policy, Vary: 'Accept, Accept-Encoding' };

const forms = lazily(async () => {
  const { plain, zipped } = await makePage();
  return compressed(html, plain, headers, zipped);
});

function makePage(): Promise<MadePage> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(threadModule('graphql/graphiql-page'));
    thread.once('message', resolve).once('error', reject);
    // Comes after the message, if there was one.
    thread.once('exit', () => reject(new Error('The thread exited without rendering the page')));
  });
}

/** @param acceptEncoding the header of the request */
export async function graphiQLPage(acceptEncoding: string | undefined): Promise<Page> {
  return formFor(await forms(), acceptEncoding);
}

import { Worker } from 'node:worker_threads';
import { html, type Page, page } from '../access/page.ts';
import { lazily } from '../domain/lazily.ts';
import { threadModule } from '../layout.ts';
import type { MadePage } from './graphiql-page.ts';

// GraphiQL, which anybody may ask for. It is all in one page of nine megabytes: so it is made once, and those who are
// sent it share its bytes.

/** Like that of the other pages, but for what it runs, all of which is in it, and for calling the service. */
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
  return { plain: page(html, plain, headers), zipped: page(html, zipped, { ...headers, 'Content-Encoding': 'gzip' }) };
});

function makePage(): Promise<MadePage> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(threadModule('graphql/graphiql-page'));
    thread.once('message', resolve).once('error', reject);
    thread.once('exit', () => reject(new Error('The thread ended without the page'))); // after what it has said
  });
}

/** @param acceptEncoding the header of who asks for it */
export async function graphiQLPage(acceptEncoding: string | undefined): Promise<Page> {
  const { plain, zipped } = await forms();
  return takesGzip(acceptEncoding) ? zipped : plain;
}

/** RFC 9110, section 12.5.3. */
function takesGzip(acceptEncoding = ''): boolean {
  return acceptEncoding.split(',').some((entry) => {
    const [coding, weight] = entry.toLowerCase().split(';');
    return coding?.trim() === 'gzip' && !/^\s*q\s*=\s*0(\.0*)?\s*$/.test(weight ?? '');
  });
}

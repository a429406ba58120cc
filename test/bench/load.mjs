import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// One load on one server, by wrk, which takes so little of a core itself that it is the server that is measured.
// Reads what to do, prints what was measured. Each request is one of those given, by chance.

const { url, requests, headers, connections, seconds } = JSON.parse(readFileSync(0, 'utf8'));

/** A request as it is sent. They are read from a file: Lua takes no script with as many texts. */
const raw = ({ method, path, headers: own, body = '' }) => {
  const length = method === 'GET' ? {} : { 'Content-Length': Buffer.byteLength(body) };
  const all = { Host: new URL(url).host, ...headers, ...own, ...length };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
};
const separator = '\x1e';

const script = (file) => `
local requests = {}
function init()
  math.randomseed(1)
  for request in io.open('${file}', 'rb'):read('*a'):gmatch('[^\\30]+') do requests[#requests + 1] = request end
end
function request()
  return requests[math.random(#requests)]
end
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"requestsPerSecond":%f,"bytesPerRequest":%d,"p50Ms":%f,"p99Ms":%f,"failures":%d}',
    summary.requests, summary.requests * 1e6 / summary.duration, summary.bytes / math.max(1, summary.requests),
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
`;

const folder = mkdtempSync(join(tmpdir(), 'conversation-service-load-'));
try {
  const file = join(folder, 'load.lua');
  writeFileSync(join(folder, 'requests'), requests.map(raw).join(separator));
  writeFileSync(file, script(join(folder, 'requests')));
  const printed = execFileSync('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', file, url]).toString();
  console.log(printed.slice(printed.indexOf('{"requests"')));
} catch (error) {
  if (error.code !== 'ENOENT') throw error;
  throw new Error('The benchmark needs wrk, which most systems have as a package of that name.', { cause: error });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

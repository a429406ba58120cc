import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

// One load on one server, by wrk, which takes so little of a core itself that it is the server that is measured.
// Reads what to do, prints what was measured.

const { url, requests, headers, connections, seconds } = JSON.parse(readFileSync(0, 'utf8'));

/** A string or a table of strings in Lua, where a long bracket takes any text as it is. */
const lua = (value) =>
  typeof value === 'object'
    ? `{${Object.entries(value).map(([key, item]) => `[ ${lua(key)} ]=${lua(item)}`)}}`
    : value === undefined
      ? 'nil'
      : `[==[${value}]==]`;

const script = `
local requests, index = {}, 0
function init()
${requests
  .map(
    ({ method, path, headers: own, body }) =>
      `  requests[#requests + 1] = wrk.format(${[method, path, { ...headers, ...own }, body].map(lua)})`,
  )
  .join('\n')}
end
function request()
  index = index % #requests + 1
  return requests[index]
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
  writeFileSync(file, script);
  const printed = execFileSync('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', file, url]).toString();
  console.log(printed.slice(printed.indexOf('{"requests"')));
} catch (error) {
  if (error.code !== 'ENOENT') throw error;
  throw new Error('The benchmark needs wrk, which most systems have as a package of that name.', { cause: error });
} finally {
  rmSync(folder, { recursive: true, force: true });
}

import { readFileSync } from 'node:fs';
import autocannon from 'autocannon';

// One load on one server, in a process of its own: reads what to do, prints what it measured.

const { url, requests, headers, connections, seconds } = JSON.parse(readFileSync(0, 'utf8'));
const result = await autocannon({ url, connections, duration: seconds, headers, requests });
console.log(
  JSON.stringify({
    requestsPerSecond: result.requests.total / result.duration,
    requests: result.requests.total,
    bytesPerRequest: Math.round(result.throughput.total / Math.max(1, result.requests.total)),
    p50Ms: result.latency.p50,
    p99Ms: result.latency.p99,
    failures: result.non2xx + result.errors + result.timeouts,
  }),
);

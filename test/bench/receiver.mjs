import { createServer } from 'node:http';

// Takes what is sent to it, counts, and tells whoever asks (`GET /`) how fast the awaited number came, once a quarter of
// it was there: until then the sender is being compiled, as every contestant is before it is measured.

const awaited = Number(process.env.BENCH_AWAITED);
const warm = Math.floor(awaited / 4);
let count = 0;
let bytes = 0;
let firstMs = 0;
let lastMs = 0;
const asking = [];

function tell(res) {
  res.end(
    JSON.stringify({ perSecond: (awaited - warm) / ((lastMs - firstMs) / 1_000), bytes: Math.round(bytes / count) }),
  );
}

createServer((req, res) => {
  if (req.method === 'GET') {
    if (count >= awaited) tell(res);
    else asking.push(res);
    return;
  }
  req.on('data', (chunk) => {
    bytes += chunk.length;
  });
  req.on('end', () => {
    res.end();
    count++;
    if (count === warm) firstMs = performance.now();
    if (count !== awaited) return;
    lastMs = performance.now();
    asking.forEach(tell);
  });
}).listen(Number(process.env.PORT), '127.0.0.1');

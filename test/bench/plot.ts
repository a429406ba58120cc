import type { WorkResult } from './throughput.ts';

const barHeight = 16;
const gap = 6;
const left = 300;
const width = 860;
const unit = 200;

const titles: Readonly<Record<string, string>> = {
  fastify: 'Fastify',
  'fastify-same-writes': 'Fastify, the same writes',
  mercurius: 'mercurius with JIT',
  apollo: 'Apollo Server',
  bare: 'bare node:http',
  broadcast: 'plain ws broadcast',
  post: 'plain undici loop',
};

/** Our throughput relative to each peer's, as bars beside a line at 1: an SVG that reads on light and on dark. */
export function plot(results: readonly WorkResult[], machine: string): string {
  const parts: string[] = [];
  let y = 30;
  for (const { name, ratios } of results) {
    parts.push(text(0, y + 12, name, 'bold'));
    y += 22;
    for (const [peer, { ratio, aim }] of Object.entries(ratios)) {
      const length = Math.min(ratio * unit, width - left - 60);
      const color = aim === undefined || ratio >= aim ? '#2f855a' : '#b7791f';
      parts.push(
        text(left - 10, y + 12, `to ${titles[peer] ?? peer}`, 'normal', 'end'),
        `<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="${barHeight}" fill="${color}"/>`,
        aim === undefined
          ? ''
          : `<line x1="${left + aim * unit}" x2="${left + aim * unit}" y1="${y - 2}" y2="${y + barHeight + 2}" stroke="#c53030" stroke-dasharray="3 2"/>`,
        text(left + length + 6, y + 12, ratio.toFixed(2)),
      );
      y += barHeight + gap;
    }
    y += 10;
  }
  const line = `<line x1="${left + unit}" x2="${left + unit}" y1="20" y2="${y}" stroke="#718096"/>`;
  const caption = text(0, y + 14, `Throughput relative to the other server; red: target. ${machine}`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y + 26}" font-family="sans-serif" font-size="13" fill="#718096">
<title>Throughput relative to other servers</title>
${text(left + unit - 12, 14, '1.0')}
${line}
${parts.join('\n')}
${caption}
</svg>
`;
}

function text(x: number, y: number, content: string, weight = 'normal', anchor = 'start'): string {
  const escaped = content.replaceAll('&', '&amp;').replaceAll('<', '&lt;');
  return `<text x="${x}" y="${y}" font-weight="${weight}" text-anchor="${anchor}">${escaped}</text>`;
}

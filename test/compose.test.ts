import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig, variables } from '../src/config.ts';
import type { Json } from './support/client.ts';

// The compose file, which is read here but not run: that needs Docker.

const path = fileURLToPath(new URL('../compose.yaml', import.meta.url));
const { services }: Json = parse(readFileSync(path, 'utf8'));
const nodes: Json[] = Object.values(services).filter((service: Json) => service.build === '.');
const environment = { PATH: process.env['PATH'], POSTGRES_PASSWORD: 'abc' };

test('the compose file is one, by the word of Docker’s own tool', ({ skip }) => {
  const commands = [['docker', 'compose'], ['docker-compose']] as const;
  const found = commands.find(([file, ...args]) => spawnSync(file, [...args, 'version']).status === 0);
  if (found === undefined) {
    const advice = 'There is neither `docker compose` nor docker-compose, which this test needs';
    console.log(advice);
    skip(advice);
    return;
  }
  const [file, ...args] = found;
  const { status, stderr } = spawnSync(file, [...args, '--file', path, 'config', '--quiet'], { env: environment });
  expect({ status, stderr: stderr.toString() }).toEqual({ status: 0, stderr: '' });
});

test('the nodes of the compose file have settings that there are, and the time to stop that they are told', () => {
  expect(nodes.length).toBe(2);
  for (const node of nodes) {
    const given = Object.entries(node.environment as Record<string, string>);
    expect(given.map(([name]) => name).filter((name) => !(name in variables.shape))).toEqual([]);
    // What stands for a variable of the shell, or for what it is without one.
    const values = given.map(([name, value]) => [
      name,
      value.replaceAll(/\$\{\w+:[?-]([^}]*)\}/g, '$1').replaceAll(' ', '-'),
    ]);
    const { postgres, shutdownDelayMs, shutdownGraceMs } = readConfig(Object.fromEntries(values));
    expect(postgres?.url).toContain('@database/');
    expect(Number.parseInt(node.stop_grace_period, 10) * 1_000).toBeGreaterThan(shutdownDelayMs + shutdownGraceMs);
  }
});

import manifest from '../../package.json' with { type: 'json' };
import { advice, changesSince, copyRelease, lastRelease, refused, textsOf } from './release.ts';

// What `npm run release` does, once package.json has the new version.

const { version } = manifest;
const last = lastRelease();
const changes = changesSince(last);
const breaks = refused(changes, last.version, version);
for (const text of textsOf(changes, 'risky')) console.log(`To be said in CHANGELOG.md: ${text}`);
if (breaks.length > 0) {
  console.error(`${advice(last.version)}\n${breaks.join('\n')}`);
  process.exitCode = 1;
} else {
  copyRelease(version);
}

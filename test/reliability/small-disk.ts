import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

/** Why no file system can be mounted here; undefined where one can. */
export const cannotMount: string | undefined = tryMounting();

/** A file system of the test's own, in memory, that is as full as the test wants it to be. */
export interface SmallDisk {
  readonly folder: string;
  /** Leaves so many bytes free, and no more. */
  fill(leftBytes?: number): void;
  /** Takes away what it was filled with. */
  free(): void;
  /** From here on nobody can write. Nobody may have a file open for writing. */
  makeReadOnly(): void;
  makeWritable(): void;
}

/** Mounts one until the test has finished. */
export function smallDisk(mebibytes: number): SmallDisk {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-disk-'));
  mount('-t', 'tmpfs', '-o', `size=${mebibytes}m,mode=0700`, 'tmpfs', folder);
  onTestFinished(() => {
    // Whoever still has files open there keeps them, and nobody else sees them.
    execFileSync('umount', ['--lazy', folder]);
    rmdirSync(folder);
  });
  const ballast = join(folder, 'ballast');
  return {
    folder,
    fill(leftBytes = 0) {
      const { bavail, bsize } = statfsSync(folder);
      try {
        writeFileSync(ballast, Buffer.alloc(Math.max(0, bavail * bsize - leftBytes)), { flag: 'a' });
      } catch (error) {
        // Somebody else has written meanwhile, and it is as full as it can be.
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
      }
    },
    free: () => rmSync(ballast, { force: true }),
    makeReadOnly: () => mount('-o', 'remount,ro', folder),
    makeWritable: () => mount('-o', 'remount,rw', folder),
  };
}

function mount(...args: string[]): void {
  execFileSync('mount', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function tryMounting(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'conversation-service-disk-'));
  try {
    mount('-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder);
    execFileSync('umount', ['--lazy', folder]);
    return undefined;
  } catch (error) {
    return `no file system can be mounted here: ${(error instanceof Error ? error.message : String(error)).trim()}`;
  } finally {
    rmdirSync(folder);
  }
}

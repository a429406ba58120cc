import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/files.ts';

// What comes between a program and the system, and fails what it is told to while a file of that name is there. Only
// files of databases are touched.
const source = String.raw`
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_told(const char *what) {
  const char *folder = getenv("BROKEN_DISK");
  char path[4096];
  if (folder == NULL) return 0;
  snprintf(path, sizeof path, "%s/%s", folder, what);
  return access(path, F_OK) == 0;
}

static int is_of_database(int fd) {
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (length < 0 || memchr(path, '/', length) == NULL) return 0; /* such as a pipe */
  path[length] = '\0';
  return strstr(strrchr(path, '/'), ".db") != NULL;
}

#define FAILING(result, name, what, code, parameters, arguments)                        \
  result name parameters {                                                              \
    static result (*real) parameters;                                                   \
    if (real == NULL) real = (result (*) parameters)dlsym(RTLD_NEXT, #name);            \
    if (is_told(what) && is_of_database(fd)) {                                          \
      errno = code;                                                                     \
      return -1;                                                                        \
    }                                                                                   \
    return real arguments;                                                              \
  }

FAILING(int, fsync, "fsync", EIO, (int fd), (fd))
FAILING(int, fdatasync, "fsync", EIO, (int fd), (fd))
FAILING(ssize_t, write, "write", EROFS, (int fd, const void *from, size_t count), (fd, from, count))
FAILING(ssize_t, pwrite, "write", EROFS, (int fd, const void *from, size_t count, off_t at), (fd, from, count, at))
FAILING(ssize_t, pwrite64, "write", EROFS, (int fd, const void *from, size_t count, off64_t at), (fd, from, count, at))
FAILING(int, ftruncate, "write", EROFS, (int fd, off_t length), (fd, length))
FAILING(int, ftruncate64, "write", EROFS, (int fd, off64_t length), (fd, length))
`;

/** Why nothing can be put between; undefined where it can. */
export const cannotBreak: string | undefined = findCompiler();

/** A disk that fails as the test wants it to, for a program that is started with this environment. */
export interface BrokenDisk {
  readonly environment: Readonly<Record<string, string>>;
  /** From here on nothing reaches the disk for sure (`fsync`), or can be written (`write`). */
  break(what: 'fsync' | 'write'): void;
  mend(): void;
}

export function brokenDisk(): BrokenDisk {
  const folder = temporaryFolder();
  const [program, library] = [join(folder, 'broken-disk.c'), join(folder, 'broken-disk.so')];
  writeFileSync(program, source);
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', library, program, '-ldl']);
  return {
    environment: { LD_PRELOAD: library, BROKEN_DISK: folder },
    break: (what) => writeFileSync(join(folder, what), ''),
    mend() {
      for (const what of ['fsync', 'write']) rmSync(join(folder, what), { force: true });
    },
  };
}

function findCompiler(): string | undefined {
  if (process.platform !== 'linux') return 'it takes Linux';
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'there is no C compiler';
  }
}

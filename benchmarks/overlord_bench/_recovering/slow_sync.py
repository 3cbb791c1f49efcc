"""A disk whose syncs take as long as one likes: a library loaded before all others."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# A sync that took less waits for the rest: the disk is as slow as asked, no slower.
_SOURCE = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000L + t.tv_nsec;
}
static int slowly(long call, int fd) {
  const long began = now();
  const int result = (int)syscall(call, fd);
  const long rest = LEAST_NS - (now() - began);
  const struct timespec wait = {rest / 1000000000L, rest % 1000000000L};
  if (rest > 0) nanosleep(&wait, 0);
  return result;
}
int fdatasync(int fd) { return slowly(SYS_fdatasync, fd); }
int fsync(int fd) { return slowly(SYS_fsync, fd); }
"""


def environment(least_ms: float, folder: Path) -> dict[str, str]:
    """What makes a sync of a process and of its children take `least_ms`; needs a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RuntimeError("a slow disk is made by a library, and there is no C compiler `cc` here")
    library = folder / "slow_sync.so"
    words = [compiler, "-shared", "-fPIC", "-O1", f"-DLEAST_NS={round(least_ms * 1e6)}L"]
    words += ["-x", "c", "-", "-o", str(library)]
    subprocess.run(words, input=_SOURCE, text=True, check=True, timeout=60)
    return {"LD_PRELOAD": str(library)}

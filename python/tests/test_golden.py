"""Golden hashes: the same stream on every CPU, compiler, locale and day.

`golden.json` beside this file was made by `python python/tests/test_golden.py`. When a test here
fails on one machine only, numbers are not exact there (law 10): find out why. When it fails
everywhere after a change, every stream in the field changes with it: states saved by an older
version no longer continue the same stream. Unless that is the purpose (then raise the plan format's
version, say so in the CHANGELOG and make the file anew), the change is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpora import job_config, json_lines, write_megatron

import overlord as ol

GOLDEN = Path(__file__).with_name("golden.json")
SHAPES: dict[str, dict[str, Any]] = {
    "best_fit": {},
    "concat": {"packing": {"method": "concat"}, "over_length": "truncate"},
    "pad": {"packing": {"method": "pad"}, "align": 1},
    "multinomial": {
        "mixture": {
            "weights": {"bin": 3, "text": 1, "masked": 2, "lists": 1},
            "quota": "multinomial",
        }
    },
    "samples": {
        "mixture": {"weights": {"bin": 1, "text": 1, "masked": 1, "lists": 1}, "unit": "samples"}
    },
    "staged": {
        "substeps": 2,
        "mixture": {
            "stages": [
                {"steps": [0, 5], "weights": {"bin": 0.7, "text": 0.2, "masked": 0.1}},
                {
                    "steps": [5, None],
                    "weights": {"bin": 0.1, "text": 0.3, "masked": 0.4, "lists": 0.2},
                },
            ]
        },
    },
}
MESHES = ["dp=1", "pp=2,dp=2,cp=2,tp=2"]


def numbers(seed: int) -> Iterator[int]:
    """A generator that is the same everywhere and for ever: splitmix64."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        mixed = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB % 2**64
        yield mixed ^ (mixed >> 31)


def documents(seed: int, count: int, longest: int) -> list[list[int]]:
    source = numbers(seed)
    lengths = [1 + next(source) % longest for _ in range(count)]
    return [[1 + next(source) % 900 for _ in range(length)] for length in lengths]


def golden_config(folder: Path) -> dict[str, Any]:
    """A corpus that is the same bytes everywhere, and the job over it."""
    write_megatron(folder / "bin", [[np.array(d)] for d in documents(1, 300, 90)], "uint16")
    texts = ["".join(chr(97 + token % 26) for token in d) for d in documents(2, 150, 60)]
    (folder / "text.jsonl").write_bytes(json_lines({"text": text} for text in texts))
    rows = [{"t": d, "m": [token % 2 for token in d]} for d in documents(3, 120, 50)]
    (folder / "masked.jsonl").write_bytes(json_lines(rows))
    lists = pa.array(documents(4, 100, 70), pa.list_(pa.int32()))
    pq.write_table(pa.table({"t": lists}), folder / "lists.parquet", row_group_size=30)
    sources = {
        "bin": {"files": "bin.bin", "eod": 999, "window_rows": 32},
        "text": {"files": "text.jsonl", "text": "text", "tokenizer": "bytes", "shuffle": "full"},
        "masked": {
            "files": "masked.jsonl",
            "tokens": "t",
            "mask": "m",
            "bos": 998,
            "window_rows": 8,
        },
        "lists": {"files": "lists.parquet", "tokens": "t", "eod": 999, "window_rows": 32},
    }
    return job_config(
        folder, sources, job="golden", seed=20_250_101, at_end="repeat", bins=8, align=4, steps=12
    )


def golden_hashes(folder: Path) -> dict[str, dict[str, str]]:
    """Hashes of every shape of the job on every mesh. Paths and file times must not enter."""
    config = golden_config(folder)
    hashes: dict[str, dict[str, str]] = {}
    for name, shape in SHAPES.items():
        for mesh in MESHES:
            with ol.job({**config, **shape}, mesh=mesh).train(ranks="all", hash=True) as loaders:
                for _ in loaders.rounds():
                    pass
                hashes[f"{name} {mesh}"] = {
                    "content_hash": loaders.content_hash(),
                    "stream_hash": loaders.stream_hash(),
                }
    return hashes


def checked_in() -> dict[str, dict[str, str]]:
    stored: dict[str, dict[str, str]] = json.loads(GOLDEN.read_text())["hashes"]
    return stored


def test_hashes_are_the_checked_in_ones(tmp_path: Path) -> None:
    assert golden_hashes(tmp_path) == checked_in()


def test_the_same_in_another_folder_at_another_time(tmp_path: Path) -> None:
    """Where files lie and when they were written is not part of the stream."""
    folder = tmp_path / "a folder with spaces" / "größe"
    folder.mkdir(parents=True)
    config = golden_config(folder)
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    with ol.job(config, mesh=MESHES[1]).train(ranks="all", hash=True) as loaders:
        for _ in loaders.rounds():
            pass
        assert loaders.stream_hash() == checked_in()[f"best_fit {MESHES[1]}"]["stream_hash"]


SURROUNDINGS: dict[str, dict[str, str]] = {
    "one OMP thread": {"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
    "many OMP threads": {"OMP_NUM_THREADS": "7", "OMP_PROC_BIND": "true"},
    "German": {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Pacific/Kiritimati"},
    "C locale": {"LC_ALL": "C", "TZ": "America/St_Johns", "PYTHONUTF8": "0"},
    "another hash seed": {"PYTHONHASHSEED": "4242", "MALLOC_PERTURB_": "165"},
    "no SIMD in Arrow": {"ARROW_USER_SIMD_LEVEL": "NONE"},
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_the_same_in_other_surroundings(name: str) -> None:
    run = run_elsewhere(SURROUNDINGS[name])
    assert json.loads(run) == checked_in()


def run_elsewhere(variables: dict[str, str]) -> str:
    environment = {**os.environ, **variables}
    here = str(Path(__file__).parent)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [os.environ.get("PYTHONPATH", ""), here])
    )
    command = [sys.executable, __file__, "--print"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long calls;
static long jump(void) { return (calls++ % 3 - 1) * 86400L; }
int clock_gettime(clockid_t id, struct timespec* out) {
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, out);
  if (id == CLOCK_REALTIME) out->tv_sec += jump();
  return result;
}
int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


def test_the_clock_may_jump(tmp_path: Path) -> None:
    """31: a wall clock that jumps by days, forward and backward, with every look at it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a jumping clock with")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(JUMPING_CLOCK)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    assert json.loads(run_elsewhere({"LD_PRELOAD": str(library)})) == checked_in()


def main(arguments: list[str]) -> None:
    """`--print` prints the hashes; without it golden.json is written anew."""
    with tempfile.TemporaryDirectory() as folder:
        hashes = golden_hashes(Path(folder))
    if arguments == ["--print"]:
        print(json.dumps(hashes))
        return
    about = "Made by test_golden.py, which says what it means when these change."
    GOLDEN.write_text(json.dumps({"about": about, "hashes": hashes}, indent=2) + "\n")
    print(f"wrote {len(hashes)} pairs of hashes to {GOLDEN}")


if __name__ == "__main__":
    main(sys.argv[1:])

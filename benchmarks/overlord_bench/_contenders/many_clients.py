"""Many ranks of one job in one process: takes steps for all of them, for `overlord bench fanout`.

Runs as `python -m ...many_clients WORK`; says `ready`, and figures when the steps are done.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def job_config(work: dict[str, Any]) -> dict[str, Any]:
    """A job of small batches, so that what a client costs is not hidden by bytes."""
    return {
        "job": "bench-fanout",
        "seed": 7,
        "context": work["context"],
        "bins": work["mesh"].get("dp", 1),
        "vocabulary": 50_000,
        "at_end": "repeat",
        "sources": {"web": {"files": [f"{work['folder']}/*.bin"]}},
        "mixture": {"weights": {"web": 1.0}},
        "delivery": {"microbatch_size": 1},
        "index_dir": f"{work['folder']}/index-fanout",
        "runtime": {
            "processes": {"directory": work["directory"]},
            "ablation": {"sharing": work["sharing"]},
        },
    }


def main(words: str) -> None:
    """Take the steps of all ranks of this process."""
    import overlord as ol

    work = json.loads(words)
    job = ol.job(job_config(work), mesh=ol.mesh(**work["mesh"]))
    waits: list[float] = []
    with job.train(ranks=work["ranks"], engine=work["engine"]) as loaders:
        readers = [loaders[rank] for rank in work["ranks"]]
        for _ in range(work["warmup"]):
            for reader in readers:
                next(reader)
        print("ready", flush=True)
        sys.stdin.readline()
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(work["steps"]):
            for reader in readers:
                asked = time.perf_counter()
                next(reader)
                waits.append(time.perf_counter() - asked)
        figures = {
            "wall": time.perf_counter() - began,
            "cpu": time.process_time() - cpu,
            "waits": [round(wait * 1e6) for wait in waits],
        }
        print("done " + json.dumps(figures), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1])

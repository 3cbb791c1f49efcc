"""What a running node does, seen from outside: its processes, sources and ranks, with rates."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.index.source_profile import STAGES, dominating, stage_counters
from overlord._src.native import core

if TYPE_CHECKING:
    from overlord._src.loader.loader import RankLoaders

_ANSWER_SECONDS = 10.0  # on a busy machine a node that lives may say nothing for a while
_WINDOW_SECONDS = 5.0  # rates are those of the last few seconds: processes tell once a second
_SEARCH_SECONDS = 0.5  # for a node that may be dead
_ASKING = threading.Lock()  # one question of this process at a time: its name there is its pid

Status = dict[str, Any]
_MEMORY_FIELDS = {
    "rss_bytes": ("Rss",),
    "pss_bytes": ("Pss",),
    "private_bytes": ("Private_Clean", "Private_Dirty"),
    "shared_bytes": ("Shared_Clean", "Shared_Dirty"),
}


def process_memory(pid: int) -> dict[str, int] | None:
    """Memory of a process: resident, its fair share, private, shared; None where nobody may say."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    found: dict[str, int] = {}
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = int(rest[:-3]) * 1024
    if "Rss" not in found:  # it has ended, and nobody has asked for its status yet
        return None
    return {key: sum(found.get(name, 0) for name in parts) for key, parts in _MEMORY_FIELDS.items()}


def ask(directory: str, seconds: float = _ANSWER_SECONDS) -> Status:
    """The status of the node in a directory; UnavailableError where none answers."""
    with _ASKING:
        status: Status = core.ask_node(directory, seconds)
        return status


def asked_metrics(directory: str, seconds: float = 2.0) -> str:
    """The same as Prometheus text, as the node's own door of metrics tells it."""
    with _ASKING:
        text: str = core.node_metrics(directory, seconds)
        return text


def _directories_of_processes() -> Iterable[str]:
    """Directories of the node processes of this user, wherever they lie."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if entry.stat().st_uid != os.geteuid():
                continue
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if len(words) > 3 and words[0].endswith(b"overlord-node") and words[1] == b"keep":
                yield os.fsdecode(words[2])


def _directories_under(bases: Iterable[str]) -> Iterable[str]:
    """Directories under these that may have a node of this user: of other mount or pid spaces."""
    for base in bases:
        with contextlib.suppress(OSError):
            for path in Path(base).glob(f"overlord-{os.geteuid()}-*"):
                if path.is_dir() and not path.is_symlink():
                    yield str(path)


def find_nodes(base: str | None = None) -> list[tuple[str, Status]]:
    """Directory and status of every node of this user that answers; `base` is looked into too."""
    bases = [base, os.environ.get("XDG_RUNTIME_DIR"), "/tmp"]
    known = [*_directories_of_processes(), *_directories_under(item for item in bases if item)]
    found = []
    for path in sorted({os.path.realpath(item) for item in known}):
        with contextlib.suppress(core.OverlordError):
            found.append((path, ask(path, _SEARCH_SECONDS)))
    return found


class NodeWatch:
    """Looks at a node again and again, and knows what changed meanwhile."""

    def __init__(
        self, question: Callable[[], Status], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._question = question
        self._clock = clock
        self._marks: deque[tuple[float, dict[str, int]]] = deque()
        self._moved: dict[int, tuple[int, float]] = {}  # rank: steps consumed, since when

    @classmethod
    def of(cls, directory: str) -> NodeWatch:
        """Of the node in a directory."""
        return cls(lambda: ask(directory))

    def look(self) -> Status:
        """What is there now. Rates are those since up to five seconds ago, 0 the first time."""
        status = self._question()
        now = self._clock()
        counters = _counters(status)
        self._marks.append((now, counters))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW_SECONDS:
            self._marks.popleft()
        then, before = self._marks[0]
        passed = now - then

        def gained(key: str) -> int:
            start = before.get(key, 0)
            # A process that was started again counts from 0.
            return counters[key] - start if counters[key] >= start else counters[key]

        sources = _sources(status, gained, passed)
        ranks = [_rank(client, gained, passed) for client in status["clients"]]
        ranks.sort(key=lambda item: int(item["rank"]))
        busiest = max(sources, key=lambda item: float(item["busy"]), default=None)
        return {
            **{key: status[key] for key in ("job", "stream", "attempt", "serving", "pid")},
            **{key: status[key] for key in ("restarts", "term", "recoveries", "journal")},
            **{key: status[key] for key in ("promotions", "shadowed", "unprotected")},
            "shadow_bytes": status["shadow_bytes"],
            "interval_s": passed,
            "processes": _processes(status),
            "hosts": status["hosts"],
            "sources": sources,
            "slowest_source": busiest["source"] if busiest and busiest["busy"] > 0 else None,
            "ranks": ranks,
            "constructors": status["constructors"],
            "planner": status["planner"],
            "memory": status["memory"],
            "missing": list(status["missing"]),
            "gone": list(status["gone"]),
            "waits": self._waits(status, ranks, now),
        }

    def _waits(self, status: Status, ranks: list[Status], now: float) -> list[str]:
        """Whom the others wait for, as far as it can be seen."""
        waits = [f"rank {rank} has not attached" for rank in status["missing"]]
        waits += [status["waits"]] if status["waits"] else []
        ahead = max((item["steps_consumed"] for item in ranks if item["queue"] == 0), default=0)
        for item in ranks:
            rank, steps = item["rank"], item["steps_consumed"]
            before, since = self._moved.get(rank, (-1, now))
            since = since if steps == before else now
            self._moved[rank] = (steps, since)
            # Trainers tell once a second: what stands still for longer really does.
            if steps < ahead and item["queue"] > 0 and now - since > 2.0:
                waits.append(
                    f"rank {rank} has step {steps} and did not go on for {now - since:.0f} s"
                )
        return waits


def watch_of(loaders: RankLoaders) -> NodeWatch | None:
    """The watch of the node that loaders of this process are attached to; None: embedded."""
    engine = loaders._shared.running()
    return NodeWatch(engine.node_status) if isinstance(engine, core.AttachedEngine) else None


def _counters(status: Status) -> dict[str, int]:
    """What only grows while a process lives, by the name of its owner."""
    found: dict[str, int] = {}
    for loader in status["loaders"]:
        for key in ("read_bytes", "rows_posted", "transform_ns", "read_wait_ns"):
            found[f"source {loader['source']} {loader['slot']} {key}"] = loader[key]
    for (source, who, stage), spent in stage_counters(status).items():
        found[f"stage {stage} of {source} {who}"] = spent
    for client in status["clients"]:
        for key in ("wait_ns", "steps_consumed"):
            found[f"rank {client['rank']} {key}"] = client[key]
    return found


def _sources(status: Status, gained: Callable[[str], int], passed: float) -> list[Status]:
    """Sources by name, their loaders added up."""
    found: dict[str, Status] = {}
    for loader in sorted(status["loaders"], key=lambda item: (item["source"], item["slot"])):
        name = loader["source"]
        source = found.setdefault(
            name, {"source": name, "loaders": 0, "reading": 0, "idle_bytes": 0, "busy": 0.0}
        )
        source["loaders"] += 1
        # One whose source has fewer slots now waits for work, and keeps what it had for a while.
        source["reading"] += 1 if loader["reads"] else 0
        source["idle_bytes"] += 0 if loader["reads"] else loader["buffer_bytes"]
        for key, ours in _SOURCE_SUMS.items():
            source[ours] = source.get(ours, 0) + loader[key]
        prefix = f"source {name} {loader['slot']}"
        seconds = max(passed, 1e-9)
        for rate, key in (("bytes_per_s", "read_bytes"), ("rows_per_s", "rows_posted")):
            more = gained(f"{prefix} {key}") / seconds if passed else 0.0
            source[rate] = source.get(rate, 0.0) + more
        worked = gained(f"{prefix} transform_ns") + gained(f"{prefix} read_wait_ns")
        source["busy"] += worked / 1e9 / seconds if passed else 0.0
    for name, times in _stage_times(status, gained).items():
        if name not in found:  # constructors may tell before loaders do
            continue
        stage = dominating(times)
        found[name]["stage"] = stage
        found[name]["stage_share"] = times[stage] / sum(times.values()) if stage else 0.0
        found[name]["stage_ns"] = times
    return list(found.values())


def _stage_times(status: Status, gained: Callable[[str], int]) -> dict[str, dict[str, int]]:
    """Time by source and stage: of the last seconds, or of all where nothing was done in them."""
    recent: dict[str, dict[str, int]] = {}
    whole: dict[str, dict[str, int]] = {}
    for (source, who, stage), spent in stage_counters(status).items():
        more = gained(f"stage {stage} of {source} {who}")
        for times, value in ((recent, more), (whole, spent)):
            own = times.setdefault(source, dict.fromkeys(STAGES, 0))
            own[stage] += value
    return {name: times if any(times.values()) else whole[name] for name, times in recent.items()}


_SOURCE_SUMS = {
    "queue": "queue",
    "in_work": "in_work",
    "rows_posted": "rows",
    "documents": "documents",
    "read_bytes": "read_bytes",
    "buffer_bytes": "buffer_bytes",
    "bad_rows": "bad_rows",
}


def _rank(client: Mapping[str, Any], gained: Callable[[str], int], passed: float) -> Status:
    rank = client["rank"]
    waited = gained(f"rank {rank} wait_ns") / 1e9 if passed else 0.0
    steps = gained(f"rank {rank} steps_consumed") if passed else 0
    return {
        "rank": rank,
        "steps_arrived": client["steps_arrived"],
        "steps_consumed": client["steps_consumed"],
        "microbatches": client["microbatches"],
        "queue": client["queue"],
        "wait_s": client["wait_ns"] / 1e9,
        "interval_wait_s": waited,
        "interval_steps": steps,
        "wait_per_step_s": waited / steps if steps else 0.0,
    }


def _processes(status: Status) -> list[Status]:
    node = {
        "name": "node",
        "pid": status["pid"],
        "generation": 1 + status["recoveries"],
        "restarts": status["recoveries"],
        "connected": True,
        "roles": 1,
        "host": "",
        "why": "",
    }
    known = (node, *status["processes"])
    return [
        # What lives on another host is looked at there.
        {**item, "memory": None if item["host"] else process_memory(item["pid"])}
        for item in known
    ]

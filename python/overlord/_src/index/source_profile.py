"""What a source cost in the run before: the profile beside its index, and its stages by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from overlord._src.config.reading import LoadedConfig
from overlord._src.index.indexing import index_path
from overlord._src.native import core

FORMAT = 4
# In the order in which rows pass them. `read` is time waited for storage.
STAGES = ("read", "decode", "python", "tokenise", "media", "send", "unpack")
# Of a loader: what constructors do is theirs, and `read` is waited for, not worked.
TRANSFORMS = ("decode", "python", "tokenise", "media")
WORKED_BY_LOADERS = (*TRANSFORMS, "send")
WORKING_STAGES = tuple(stage for stage in STAGES if stage != "read")
PROBE = "probe"  # instead of an engine: some rows at a start, as fast as they could be read
# Where the status of a running engine has a stage's time: of loaders, and of constructors.
_LOADER_TIMES = {
    "read": "read_wait_ns",
    "decode": "decode_ns",
    "python": "python_ns",
    "tokenise": "tokenise_ns",
    "media": "media_ns",
    "send": "send_ns",
}
UNPACK_TIME = "unpack_ns"


@dataclass(frozen=True)
class StageProfile:
    """A stage of one source in one run."""

    ns: int
    in_bytes: int
    out_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class SourceProfile:
    """What one source cost in one run."""

    source: str
    engine: str
    elapsed_ns: int
    loaders: int
    documents: int
    tokens: int
    rows_posted: int
    blocks_read: int
    cache_hits: int
    bad_rows: int
    media_blobs: int
    unpacked_blobs: int
    file_state_bytes: int
    stages: dict[str, StageProfile]

    @property
    def rows_per_s(self) -> float:
        """Rows handed over in a second of the run: what was asked for, not what is possible."""
        return self.documents / self.elapsed_ns * 1e9 if self.elapsed_ns else 0.0

    @property
    def work_ns(self) -> int:
        """Time of a CPU, all stages."""
        return sum(self.stages[stage].ns for stage in WORKING_STAGES)

    @property
    def loader_work_ns(self) -> int:
        """Time of a CPU in loaders."""
        return sum(self.stages[stage].ns for stage in WORKED_BY_LOADERS)

    @property
    def loader_millicores(self) -> int:
        """Thousandths of a core that its loaders kept busy: what rows cost, times those drawn."""
        if self.engine == PROBE:
            return 0
        return max(1, self.loader_work_ns * 1000 // self.elapsed_ns) if self.elapsed_ns else 0

    @property
    def media_ns(self) -> int:
        """Time of a CPU for decoding media, every blob once."""
        unpacked = self.stages["unpack"].ns
        if self.unpacked_blobs > self.media_blobs:  # several groups found out whether it decodes
            unpacked = unpacked * self.media_blobs // self.unpacked_blobs
        return self.stages["media"].ns + unpacked

    @property
    def decode_millicores(self) -> int:
        """Thousandths of a core that decoding media keeps busy."""
        if self.engine == PROBE or not self.elapsed_ns:
            return 0
        return self.media_ns * 1000 // self.elapsed_ns

    @property
    def rows_per_core_s(self) -> float:
        """Rows that a second of one CPU makes; 0: no time was measured."""
        return self.documents / self.work_ns * 1e9 if self.work_ns else 0.0

    @property
    def cost(self) -> dict[str, int]:
        """What it cost its loaders in all, as the engine is told it."""
        probed = self.engine == PROBE  # says what rows cost, and not how many are drawn
        return {
            "elapsed_ns": 0 if probed else self.elapsed_ns,
            "work_ns": sum(self.stages[stage].ns for stage in TRANSFORMS),
            "wait_ns": self.stages["read"].ns,
            "send_ns": self.stages["send"].ns,
            "media_ns": self.media_ns,
            "documents": self.documents,
            "tokens": self.tokens,
        }

    def per_row(self, value: float) -> float:
        """A figure of the run, divided among its rows."""
        return value / self.documents if self.documents else 0.0

    @property
    def memory_bytes(self) -> int:
        """The most that its stages held, as if all had done so at once."""
        return sum(stage.peak_bytes for stage in self.stages.values()) + self.file_state_bytes

    def data(self) -> dict[str, Any]:
        """All of it for machines, with what is derived."""
        return {
            **asdict(self),
            "rows_per_s": self.rows_per_s,
            "rows_per_core_s": self.rows_per_core_s,
            "memory_bytes": self.memory_bytes,
            "dominating_stage": dominating({name: one.ns for name, one in self.stages.items()}),
        }


def profile_path(loaded: LoadedConfig, source: core.Source) -> Path:
    """Where the profile of a source lies; a sub-source has its own."""
    _, mark, number = source.name.partition("/")
    path = index_path(loaded, source)
    return path.with_name(f"{path.name}.{number}.profile" if mark else f"{path.name}.profile")


def read_profile(loaded: LoadedConfig, source: core.Source) -> SourceProfile | None:
    """The profile of a source; None where no run has written one that can be read."""
    try:
        told = json.loads(profile_path(loaded, source).read_text())
        if told["format"] != FORMAT or told["source"] != source.name:
            return None
        counts = {
            key: told[key] for key in SourceProfile.__dataclass_fields__ if key not in ("stages",)
        }
        stages = {stage: StageProfile(**told["stages"][stage]) for stage in STAGES}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return SourceProfile(**counts, stages=stages)


def read_profiles(loaded: LoadedConfig, sources: Iterable[core.Source]) -> dict[str, SourceProfile]:
    """Profiles of those sources that have one."""
    found = {source.name: read_profile(loaded, source) for source in sources}
    return {name: profile for name, profile in found.items() if profile is not None}


def loader_millicores(loaded: LoadedConfig, sources: Iterable[core.Source]) -> dict[str, int]:
    """Thousandths of a core that loaders kept busy in the run before, of sources it profiled."""
    profiles = read_profiles(loaded, sources)
    return {name: profile.loader_millicores for name, profile in profiles.items()}


def decode_millicores(loaded: LoadedConfig, sources: Iterable[core.Source]) -> dict[str, int]:
    """The same that decoding media did, whoever decoded."""
    profiles = read_profiles(loaded, sources)
    return {name: profile.decode_millicores for name, profile in profiles.items()}


def dominating(times: Mapping[str, float]) -> str | None:
    """The stage that takes most time; waiting for storage counts too. None: none takes any."""
    stage = max(times, key=lambda name: times[name], default=None)
    return stage if stage is not None and times[stage] > 0 else None


def stage_counters(status: Mapping[str, Any]) -> dict[tuple[str, str, str], int]:
    """Time by source, who spent it and stage, out of the status of a running engine."""
    found: dict[tuple[str, str, str], int] = {}
    for loader in status["loaders"]:
        for stage, key in _LOADER_TIMES.items():
            found[loader["source"], f"slot {loader['slot']}", stage] = loader[key]
    for one in status["unpacking"]:
        found[one["source"], "constructors", "unpack"] = one[UNPACK_TIME]
    return found

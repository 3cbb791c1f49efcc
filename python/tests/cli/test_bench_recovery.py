"""`overlord bench recovery`: its comparison finds what is lost, a short run keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overlord._src.node.trace import TraceEvent
from overlord_bench import recovery
from overlord_bench._contenders.recovery.shadows import first_after
from overlord_bench._recovering import shadows
from overlord_bench._recovering.deaths import KINDS
from overlord_bench._stream_record import LINEAGE_ID, StreamRecord, StreamRecorder, compare

pytestmark = pytest.mark.deadline(600)


class MadeUpBatch:
    """As much of a microbatch as a record needs."""

    def __init__(self, step: int, documents: list[int]) -> None:
        self.step, self.microbatch, self._documents = step, 0, documents

    def lineage(self) -> Any:
        rows = np.zeros(len(self._documents), [(name, "<i8") for name in LINEAGE_ID])
        rows["position"] = self._documents
        return rows

    def arrays(self) -> dict[str, Any]:
        return {"tokens": np.array(self._documents, np.int32)}


def recorded(*batches: tuple[int, int, list[int]]) -> StreamRecord:
    recorder = StreamRecorder()
    for step, rank, documents in batches:
        recorder.add(rank, MadeUpBatch(step, documents))
    return recorder.record()


WANTED = recorded((0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [5, 6]), (1, 1, [7, 8]))


@pytest.mark.parametrize(
    ("got", "lost", "twice", "wrong_bytes"),
    [
        ([(0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [5, 6]), (1, 1, [7, 8])], 0, 0, 0),
        ([(0, 1, [3, 4]), (0, 0, [1, 2]), (1, 0, [5, 6]), (1, 1, [7, 8])], 0, 0, 0),
        ([(0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [5, 6])], 2, 0, 8),
        ([(0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [5, 5]), (1, 1, [7, 8])], 1, 1, 8),
        ([(0, 0, [2, 1]), (0, 1, [3, 4]), (1, 0, [5, 6]), (1, 1, [7, 8])], 0, 0, 8),
        ([(0, 0, [3, 4]), (0, 1, [1, 2]), (1, 0, [5, 6]), (1, 1, [7, 8])], 4, 4, 16),
    ],
    ids=["same", "ranks in another order", "end cut", "one twice", "order", "ranks changed places"],
)
def test_comparison_finds(got: Any, lost: int, twice: int, wrong_bytes: int) -> None:
    found = compare(WANTED, recorded(*got))
    assert (found["ids_lost"], found["ids_twice"], found["wrong_bytes"]) == (
        lost,
        twice,
        wrong_bytes,
    )


def test_a_batch_that_comes_again_is_wrong() -> None:
    again = recorded((0, 0, [1, 2]), (0, 0, [1, 2]), (0, 1, [3, 4]), (1, 0, [5, 6]), (1, 1, [7, 8]))
    found = compare(WANTED, again)
    assert (found["ids_lost"], found["ids_twice"], found["wrong_bytes"]) == (0, 2, 8)


def test_a_record_is_read_as_it_was_saved(tmp_path: Path) -> None:
    WANTED.save(tmp_path / "one.npz")
    found = compare(WANTED, StreamRecord.load(tmp_path / "one.npz"))
    assert (found["ids"], found["wrong_bytes"]) == (8, 0)


def test_figures_are_what_was_measured() -> None:
    waits = [300.0, 90.0, 40.0, 1.0, 25.0, 1.0]
    found: dict[str, Any] = {
        "ids/nobody": {"kills": 0},
        **{
            f"ids/{kind}": {"ids_lost": 0, "ids_twice": 1, "wrong_bytes": 2, "ids": 9, "bytes": 5}
            | {"kills": 3}
            for kind in KINDS
        },
        "restart/warm": {"median_s": 0.2, "max_s": 0.3},
        "restart/cold": {"failed": "it said nothing"},
        "restart/warm/306_sources": {"median_s": 0.4, "max_s": 0.5},
        "restart_flat": {"warm": {"1000": [0.5, 0.3, 0.4]}, "journal_bytes": {"1000": 77}},
        "throughput/64_bins": {"ratio": 0.9, "sync_ms": 5.0},
        "throughput/8_bins/shadows": {"ratio": 0.7, "sync_ms": 5.0},
        "stalls/node/prefetch_4/0": {"waits_ms": waits},
        "stalls/nobody/prefetch_4/0": {"waits_ms": waits[:4]},
        "stalls/node/prefetch_2/0": {"failed": "it said nothing"},
    }
    figures = recovery.figures_of(found)
    assert (figures["ids_twice"], figures["ids_compared"], figures["kills"]) == (3, 27, 9)
    assert (figures["stalled_steps"], figures["longest_wait_ms"]) == (1, 25.0)
    assert figures["stalled_steps_undisturbed"] == 0
    assert figures["planner_restart_s"] == 0.2
    assert figures["planner_restart_306_sources_s"] == 0.4
    assert figures["planner_restart_s_after_1000"] == 0.4
    assert figures["journal_bytes_after_1000"] == 77
    assert figures["throughput_ratio"] == 0.9
    assert figures["throughput_ratio_8_bins_shadows"] == 0.7
    assert not {"planner_cold_restart_s", "stalled_steps_prefetch_2"} & set(figures)
    del found["ids/node"]["ids"]
    assert "ids_lost" not in recovery.figures_of(found)


def test_first_answers_are_those_after_the_kill() -> None:
    def event(begin_ms: int, what: str, whose: str) -> TraceEvent:
        return TraceEvent("loaders-1", 1, begin_ms * 1_000_000, 500_000, 0, 0, what, whose)

    events = [
        event(30, "answer", "a"),
        event(12, "answer", "a"),
        event(9, "answer", "b"),
        event(11, "read", "b"),
        event(11, "answer", "c"),
    ]
    assert first_after(events, 10_000_000, {"a", "b"}) == {"a": 2.5}


def test_figures_of_shadows() -> None:
    kill = shadows.FIG16_KILL
    told = {"promotions_ms": [9.0], "longest_wait_ms": 4.0}
    found: dict[str, Any] = {
        "shadows/first_answers/0": {"answers_ms": [3.0, 1.0], **told},
        "shadows/first_answers/1": {"answers_ms": [2.0], **told},
        "shadow_stalls/one/0": {"waits_ms": [99.0, 99.0, 99.0, 21.0, 1.0]},
        "shadow_stalls/nobody/0": {"failed": "it said nothing"},
        "fig16/with/0": {"waits_ms": [50.0] * (kill + 1) + [2.0]},
        "fig16/without/0": {"waits_ms": [1.0] * (kill + 1) + [60.0, 3.0]},
    }
    figures = recovery.figures_of(found)
    assert (figures["shadow_first_byte_p99_ms"], figures["shadow_first_byte_p50_ms"]) == (3.0, 2.0)
    assert (figures["shadow_stalled_steps"], figures["shadow_longest_wait_ms"]) == (1, 21.0)
    assert "shadow_stalled_steps_undisturbed" not in figures
    assert figures["fig16_longest_wait_ms_with"] == 2.0
    assert figures["fig16_longest_wait_ms_without"] == 60.0
    found["shadows/first_answers/1"] = {"failed": "no answer"}
    assert "shadow_first_byte_p99_ms" not in recovery.figures_of(found)


def short_run(data: Path, parts: str) -> dict[str, Any]:
    size = ["--quick", "--parts", parts, "--ids", "8000", "--pace-ms", "100"]
    report = recovery.run([*size, "--data", str(data)])
    assert report["bench"] == "recovery"
    assert report["settings"]["quick"]
    for contender in report["contenders"].values():
        assert "version" in contender, contender
    figures: dict[str, Any] = report["figures"]
    return figures


@pytest.mark.soak
def test_a_short_run(tmp_path: Path) -> None:
    assert short_run(tmp_path, "throughput")["throughput_ratio"] > 0


@pytest.mark.soak
def test_a_short_run_with_kills(tmp_path: Path) -> None:
    figures = short_run(tmp_path, "ids")
    assert [figures[name] for name in ("ids_lost", "ids_twice", "wrong_bytes")] == [0, 0, 0]
    assert figures["kills"] >= len(KINDS)

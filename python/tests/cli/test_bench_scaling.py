"""`overlord bench scaling`: a quick run of each figure keeps the contract; figures are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from overlord._src.simulate.memory import CONSTANTS
from overlord_bench import scaling
from overlord_bench.scaling import _fleets, _paced, _plots, grid, hosts, loaders, model, shift

pytestmark = pytest.mark.deadline(600)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scaling")


def run(data: Path, figure: str, *words: str) -> dict[str, Any]:
    report = scaling.run(["--quick", "--figure", figure, "--data", str(data), *words])
    assert report["bench"] == "scaling"
    assert report["settings"]["quick"]
    for contender in report["contenders"].values():
        assert "version" in contender, contender
    return report


@pytest.mark.soak
def test_hosts(data: Path) -> None:
    report = run(data, "hosts", "--no-namespaces", "--hosts", "1")
    assert report["figures"]["hosts_1_tokens_per_s"] > 0
    one = report["contenders"]["hosts/1"]
    assert (one["network"], one["encrypted"]) == ("loopback", False)
    assert list(one["loader_processes"].values()) == [1]
    assert all(name.startswith("joined-") for name in one["loader_processes"])


def test_planner(data: Path) -> None:
    report = run(data, "planner")
    one, many = (report["contenders"][f"planner/{count}_hosts"] for count in (1, 128))
    assert one["samples_per_step"] == many["samples_per_step"] > 0
    assert many["frames_per_step"] >= one["frames_per_step"]
    assert report["figures"]["planner_hosts_ratio"] > 0


@pytest.mark.soak
def test_grid(data: Path) -> None:
    figures = run(data, "grid", "--cores", "1")["figures"]
    assert figures["auto_vs_grid"] == figures["auto_vs_grid_text"] > 0
    assert {size.split()[0] for size in figures["auto_text_sizes"].split(", ")} == {
        *("web", "long", "ready")
    }


@pytest.mark.soak
def test_paced_figures(data: Path) -> None:
    figures = run(data, "shift", "--cores", "1")["figures"]
    assert {f"stalled_steps_{name}" for name in shift.QUICK} <= set(figures)


@pytest.mark.soak
def test_parallelism(data: Path) -> None:
    report = run(data, "parallelism", "--sources", "4", "--steps", "1")
    assert report["figures"]["fig15_split_2_bytes_each"] > 0
    assert report["contenders"]["fleet/parallelism/split_2/4"]["fetch_ms_p50"] > 0


def test_a_turn_is_answerable_for_what_follows_it() -> None:
    told = {
        "version": "0",
        "waits_ms": [1.0, 50.0, 1.0, 30.0],
        "stalled": [1, 3],
        "stalled_steps": 2,
    }
    figures = shift.figures_of({"auto": told, "plain": {"failed": "no room"}}, 0.01, 3)
    assert (figures["stalled_steps_auto"], figures["shift_stalled_before_auto"]) == (1, 1)
    assert figures["shift_longest_wait_ms_auto"] == 30.0
    assert "stalled_steps_plain" not in figures


def test_an_unknown_figure_is_named() -> None:
    with pytest.raises(SystemExit, match="there is no hots; choose of"):
        scaling.run(["--figure", "hots"])


def test_no_time_left_is_told(data: Path) -> None:
    report = scaling.run(["--quick", "--figure", "shift", "--data", str(data), "--limit", "0"])
    assert "--limit" in report["contenders"]["shift/capacity"]["failed"]
    assert report["figures"] == {}


def test_efficiency_is_that_of_the_worst_number_of_hosts() -> None:
    rates = {1: 10.0, 2: 19.0, 4: 30.0}
    found = {count: {"tokens_per_s": rate} for count, rate in rates.items()}
    figures = hosts.figures_of(found)
    assert figures["hosts_2_efficiency"] == 0.95
    assert figures["hosts_efficiency"] == 0.75
    assert "hosts_efficiency" not in hosts.figures_of({**found, 4: {"failed": "no room"}})
    shared = {count: {**told, "overlap": True} for count, told in found.items()}
    assert hosts.figures_of(shared)["hosts_4_on_the_same_cores"] == 3.0
    assert "hosts_efficiency" not in hosts.figures_of(shared)


def test_hosts_have_cores_of_their_own_where_there_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    pinned = hosts.pin(4, 3)
    assert pinned.trainer == (0, 1, 2, 3)
    assert pinned.hosts == ((4, 5, 6), (7, 8, 9), (10, 11, 12), (13, 14, 15))
    assert not pinned.overlap
    assert hosts.pin(8, 3).overlap


def test_a_step_is_stalled_when_it_is_waited_for() -> None:
    assert _paced.stalled([900.0, 900.0, 900.0, 1.0, 21.0, 19.0, 500.0]) == [4, 6]


def test_auto_is_compared_by_medians() -> None:
    again = {"auto": [9.0, 10.0, 50.0], "best": [20.0, 5.0, 10.0]}
    sizes = {"web": {"loaders": 4, "workers": 2}}
    figures = grid.ratios("text", (2, 4), again, sizes)
    assert figures["auto_vs_grid_text"] == 1.0
    assert (figures["grid_text_best"], figures["auto_text_sizes"]) == ("2x4", "web 4x2")
    assert grid.ratios("text", (2, 4), {"auto": [], "best": [1.0]}, sizes) == {}


def test_where_auto_loses_is_said() -> None:
    figures: dict[str, Any] = {}
    for way, size, wait in (("colocated", 300.0, 2.0), ("plain", 10.0, 4.0), ("auto", 20.0, 2.0)):
        figures[f"fig12_small_{way}_pss_bytes"] = size
        figures[f"fig12_small_{way}_fetch_ms_p50"] = wait
    figures |= loaders.ratios("small", figures)
    assert figures["fig12_small_auto_vs_plain_fetch_ms_p50"] == 0.5
    assert loaders.loses(figures) == "small_auto_vs_plain_pss_bytes"
    assert loaders.loses({}) == "nowhere"


def test_steps_of_several_calls_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("[9, 9, 9, 9, 0.001, 0.002, 0.004, 0.001]")
    told = _fleets.step_times(tmp_path, 2)
    assert told["fetch_ms_p50"] == pytest.approx(4.0)
    assert told["fetch_ms_p99"] == pytest.approx(3.0)


def test_the_model_has_measured_constants(tmp_path: Path) -> None:
    few, many = {"pss_bytes": 8 * (100 + 5 * 10)}, {"pss_bytes": 8 * (100 + 306 * 10)}
    ours = {"by_kind": {"constructors": 60}}
    constants = model.constants_of(few, many, ours, 4, (5, 306))
    assert (constants.file_state_bytes, constants.worker_buffer_bytes) == (10, 100)
    assert constants.constructor_base_bytes == 30
    assert constants.prefetch_steps == CONSTANTS.prefetch_steps
    figures = model.figures_of(constants)
    assert figures["fig14_cp8_pp8"] < figures["fig14_cp1_pp1"]
    assert [path.name for path in _plots.write_plots(figures, tmp_path)] == ["fig14_fig17.svg"]

"""The benchmarks at small sizes: reports keep their contract, and the peers' packer is right."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from overlord._src.native import core
from overlord_bench import (
    _contract,
    _peers,
    _web_corpus,
    balance,
    delivery,
    idle,
    order,
    packing,
    resume,
    transport,
)
from overlord_bench._contenders.numpy_packer import NumpyPacker, name_fields
from overlord_bench._contenders.whole_packer import WholePacker
from overlord_bench._document_files import (
    BinFiles,
    ParquetFiles,
    permuted_documents,
)
from overlord_bench._native import bench_core

NOBODY = ["--peers", "/nowhere/python"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contenders run in this process: each one's own costs most of what it does here."""

    def run_here(pythons: Any, contender: Any, work: Any, *_: Any) -> dict[str, Any]:
        if pythons.of(contender) is None:
            return {"missing": _peers.NO_ENVIRONMENT}
        module = importlib.import_module(f"{_peers._WORKERS}.{contender.module}")
        figures: dict[str, Any] = module.measure({**work, **contender.setup})
        return figures

    monkeypatch.setattr(_peers, "run_once", run_here)


def check_report(report: dict[str, Any], bench: str, figures: set[str]) -> None:
    assert report["bench"] == bench
    assert {"cpu", "cores", "memory_bytes", "python", "versions"} <= set(report["machine"])
    assert figures <= set(report["figures"])
    for contender in report["contenders"].values():
        assert "version" in contender or "missing" in contender, contender


def naive_fields(stream: Any, pieces: list[int]) -> dict[str, list[float]]:
    """Token by token, what a step of these pieces holds."""
    fields: dict[str, list[float]] = {"tokens": [], "targets": [], "positions": [], "weights": []}
    at = 0
    for length in pieces:
        for position in range(length):
            last = position == length - 1
            fields["tokens"].append(stream[at])
            fields["targets"].append(0 if last else stream[at + 1])
            fields["positions"].append(position)
            fields["weights"].append(0.0 if last else 1.0)
            at += 1
    return fields


def test_numpy_packer_fills_every_field() -> None:
    generator = np.random.default_rng(1)
    documents = [generator.integers(1, 999, length, dtype=np.uint16) for length in (3, 9, 20, 1, 7)]
    documents += [generator.integers(1, 999, 13, dtype=np.uint16) for _ in range(20)]
    stream = np.concatenate(documents)
    packer = NumpyPacker(context=8, bins=4)
    steps = list(packer.pack([documents[:6], documents[6:9], documents[9:]]))
    assert len(steps) == len(stream) // 32
    ends = set(np.cumsum([len(document) for document in documents]).tolist())
    for number, step in enumerate(steps):
        batch = name_fields(step, 8)
        first = number * 32
        cuts = sorted({end - first for end in ends if first < end < first + 32} | {8, 16, 24, 32})
        assert batch["cu_seqlens"].tolist() == [0, *cuts]
        wanted = naive_fields(stream[first : first + 32], np.diff([0, *cuts]).tolist())
        assert batch["tokens"].ravel().tolist() == wanted["tokens"]
        assert batch["targets"].ravel().tolist() == wanted["targets"]
        assert batch["positions"].ravel().tolist() == wanted["positions"]
        assert batch["loss_weights"].ravel().tolist() == wanted["weights"]
        assert batch["tokens"].shape == (4, 8) and batch["loss_weights"].dtype == np.float32


def test_whole_packer_keeps_documents() -> None:
    generator = np.random.default_rng(2)
    lengths = generator.integers(1, 40, 300).tolist()
    documents = [np.full(length, 1 + at, np.uint16) for at, length in enumerate(lengths)]
    packer = WholePacker(context=32, bins=8)
    seen: dict[int, int] = {}
    steps = [name_fields(step, 32) for step in packer.pack([documents[:90], documents[90:]])]
    for batch in steps:
        real = int(batch["cu_seqlens"][-1])
        assert real == np.count_nonzero(batch["tokens"]) > 0.8 * 256
        sizes = np.diff(batch["cu_seqlens"]).tolist()
        starts = (batch["positions"] == 0) & (batch["tokens"] > 0)
        assert int(starts.sum()) == len(sizes)
        assert int(batch["loss_weights"].sum()) == real - len(sizes)
        inside = batch["loss_weights"] > 0
        assert (batch["tokens"][inside] == batch["targets"][inside]).all()
        for document in batch["tokens"][starts].tolist():
            seen[document] = seen.get(document, 0) + int((batch["tokens"] == document).sum())
    whole = [at for at, count in seen.items() if count >= lengths[at - 1]]
    assert len(steps) > 15 and len(whole) > 0.9 * len(seen)


def test_files_hold_the_same_documents(data: Path) -> None:
    corpus = _web_corpus.WebCorpus(tokens=200_000, shards=2, row_group=32)
    place = _web_corpus.prepare(corpus, data)
    assert _web_corpus.prepare(corpus, data) == place
    bins, parquet = BinFiles(str(place)), ParquetFiles(str(place), _web_corpus.COLUMN)
    one_pass = {}
    for name, files in (("bin", bins), ("parquet", parquet)):
        reader = permuted_documents(files, 7)
        documents = [one for _ in files.blocks() for one in next(reader)]
        one_pass[name] = sorted(document.astype(np.int32).tobytes() for document in documents)
    assert one_pass["bin"] == one_pass["parquet"]
    assert len(one_pass["bin"]) == len(bins) == _web_corpus.facts_of(place)["documents"]


def test_workers_share_all_blocks(data: Path) -> None:
    place = _web_corpus.prepare(_web_corpus.WebCorpus(tokens=200_000, shards=2, row_group=32), data)
    files = ParquetFiles(str(place), _web_corpus.COLUMN)
    shares = [permuted_documents(files, 7, part, 2) for part in (0, 1)]
    rows = sum(len(next(shares[number % 2])) for number in range(len(files.blocks())))
    assert rows == _web_corpus.facts_of(place)["documents"]


def test_medians_and_missing() -> None:
    merged = _contract.medians([{"a": 1, "v": "x"}, {"a": 5, "v": "x"}, {"a": 3, "v": "x"}])
    assert merged == {"a": 3, "v": "x", "runs": 3}
    absent = _peers.Contender("grain", "grain_loader")
    found = _peers.interleave(_peers.find_pythons("/nowhere/python"), [absent], {}, 2)
    assert found == {"grain": {"missing": _peers.NO_ENVIRONMENT}}


def test_best_peer_counts_overlap() -> None:
    found = {
        "overlord": {"tokens_per_s": 9.0, "loop_cpu": 0.0, "bytes_per_s": 90.0},
        "memcpy_two_threads": {"bytes_per_s": 180.0},
        "a": {"tokens_per_s": 3.0, "loop_cpu": 1.0},
        "b": {"tokens_per_s": 2.0, "loop_cpu": 0.2},
        "c": {"missing": "not here"},
    }
    figures = delivery.figures_of(found, {}, {})
    assert figures["ratio_vs_best_peer"] == 3.0 and figures["best_peer"] == "a"
    assert figures["ratio_vs_best_overlapped_peer"] == 4.5
    assert figures["fraction_of_memcpy"] == 0.5
    assert figures["parquet_ratio_vs_best_peer"] is None


def test_delivery(data: Path, warm: None) -> None:
    size = ["--tokens", "3e6", "--seconds", "0.1", "--rounds", "1", "--warmup", "2"]
    report = delivery.run([*size, "--data", str(data), *NOBODY])
    wanted = {"ratio_vs_best_peer", "fraction_of_memcpy", "parquet_ratio_vs_best_peer"}
    wanted |= {"parquet_fraction_of_arrow", "tokens_per_s", "loop_cpu"}
    check_report(report, "delivery", wanted | {"ratio_vs_best_overlapped_peer"})
    assert report["figures"]["tokens_per_s"] > 0
    assert report["figures"]["fraction_of_memcpy"] > 0
    assert report["figures"]["parquet_fraction_of_arrow"] > 0
    assert report["contenders"]["grain/documents"] == {"missing": _peers.NO_ENVIRONMENT}


def test_order() -> None:
    report = order.run(["--seeds", "3", "--rounds", "1", *NOBODY])
    check_report(report, "order", {"makespan_ratio", "ratio_vs_small_ends", "time_ms"})
    figures = report["figures"]
    assert figures["makespan_ratio"] < 0.85
    assert 1 <= figures["ratio_vs_brute_force_worst"] <= 1.02
    assert figures["ratio_vs_small_ends"] <= 1


def test_order_refuses_what_is_no_pipeline() -> None:
    costs, makespan = np.array([3, 1, 2], np.int64), bench_core().pipeline_makespan
    order_of = core.pipeline_order(costs, 2, "ascending")
    assert list(order_of["order"]) == [1, 2, 0]
    assert makespan(costs, 1, np.array([[0, 1, 2]], np.uint32)) == [18]
    with pytest.raises(ValueError, match="one of keep, ascending"):
        core.pipeline_order(costs, 2, "sideways")
    with pytest.raises(ValueError, match="multiple of the 2 stages"):
        core.pipeline_order(costs, 2, "search", virtual_stages=2)
    with pytest.raises(ValueError, match="each microbatch once"):
        makespan(costs, 2, np.array([[0, 1, 1]], np.uint32))
    with pytest.raises(ValueError, match="a column per microbatch"):
        makespan(costs, 2, np.array([[0, 1]], np.uint32))


def test_packing(warm: None) -> None:
    report = packing.run(["--documents", "2e5", "--rounds", "1", *NOBODY])
    check_report(report, "packing", {"fill", "docs_per_s", "max_delay_steps", "fill_32768"})
    assert report["figures"]["fill"] > 0.99
    assert report["figures"]["max_delay_steps"] <= 4


def test_balance(warm: None) -> None:
    size = ["--samples", "800", "--bins", "20", "--repeats", "1", "--rounds", "1"]
    report = balance.run([*size, *NOBODY])
    wanted = {"time_ms", "gap_percent", "speedup_vs_kk", "equal_count_gap_percent"}
    check_report(report, "balance", wanted | {f"{name}_long" for name in wanted})
    assert 0 <= report["figures"]["gap_percent"] < 0.1
    assert 0 <= report["figures"]["equal_count_gap_percent_long"] < 0.5
    assert report["figures"]["speedup_vs_kk"] is None
    assert len(report["contenders"]) == 2 * (2 * len(balance.METHODS) + 2)


def test_balance_figures_use_the_bound_of_equal_counts() -> None:
    found: dict[str, Any] = {
        balance.OURS: {"time_ms": 2.0, "max_load": 100, "lower_bound": 100, "bound_by": "mean"},
        balance.OURS + balance.EQUAL: {"time_ms": 4.0, "max_load": 121, "lower_bound": 110},
        balance.PEER: {"time_ms": 500.0, "max_load": 150},
        balance.PEER + balance.EQUAL: {"missing": "not here"},
    }
    balance.add_gaps(found)
    figures = balance.figures_of(found)
    assert figures["gap_percent"] == 0 and figures["speedup_vs_kk"] == 250
    assert figures["equal_count_gap_percent"] == pytest.approx(10)
    assert figures["kk_gap_percent"] == pytest.approx(50)
    assert figures["speedup_vs_kk_equal_count"] is None


def test_resume(data: Path, warm: None) -> None:
    size = ["--far", "5e4", "--repeats", "2", "--rounds", "1"]
    report = resume.run([*size, "--data", str(data), *NOBODY])
    check_report(report, "resume", {"ratio_10m_vs_1k", "seconds"})
    assert report["figures"]["seconds"] > 0
    assert report["contenders"]["overlord"]["far_samples"] >= 50_000


def test_idle(data: Path, warm: None) -> None:
    report = idle.run(["--sources", "2", "--files", "1", "--rounds", "1", "--data", str(data)])
    check_report(report, "idle", {"bytes_per_idle_source", "rss_bytes"})
    assert report["figures"]["rss_bytes"] > 0


def test_transport_report() -> None:
    small = ["--sizes", "16", "--streams", "4", "--gigabytes", "0.05", "--rounds", "1"]
    report = transport.run([*small, "--tls-sizes", "1", "--no-namespaces"])
    figures = {"fraction_of_raw_tcp", "gb_per_s", "cpu_per_gb", "raw_gb_per_s"}
    check_report(report, "transport", figures)
    for name in figures:
        assert report["figures"][name] > 0, name
    names = set(report["contenders"])
    assert "loopback/plain/4_streams/16_mb" in names
    assert "loopback/tls/4_streams/1_mb" in names or transport.shutil.which("openssl") is None


def test_transport_cases_are_those_of_the_contract() -> None:
    full = transport.parse(["--full"])
    names = {case.name for case in transport.cases_of(full, ["loopback", "namespaces"], True)}
    for size in (1, 16, 500):
        for streams in (1, 2, 4, 8):
            for safety in ("plain", "tls"):
                assert f"loopback/{safety}/{streams}_streams/{size}_mb" in names
        assert f"namespaces/tls/4_streams/{size}_mb" in names
    without = transport.cases_of(full, ["loopback"], False)
    assert without and not any(case.tls for case in without)


def test_ratios_of_a_trainer_are_to_the_best_of_its_loaders() -> None:
    from overlord_bench import trainers

    steps = {trainers.OURS: [2.0, 3.0, 1.0], "dataloader_0": [9.0] * 3, "dataloader_4": [4.0] * 3}
    found = trainers.ratios_of({"step_s": steps, "version": "1"})
    assert found["step_time_ratio"] == 0.5 and found["best_workers"] == 4
    assert (found["step_time_ratio_least"], found["step_time_ratio_most"]) == (0.25, 0.75)
    assert (found["step_ms"], found["rounds"]) == (2000.0, 3)
    assert trainers.ratios_of({"missing": "not here"}) == {"step_time_ratio": None}


@pytest.mark.soak
def test_trainers_count_lines_and_see_the_same_tokens(data: Path) -> None:
    pytest.importorskip("transformers")
    from overlord_bench import trainers

    sizes = ["--tokens", "20000", "--steps", "2", "--context", "64", "--bins", "2"]
    words = ["--data", str(data), "--trainers", "ddp", "--rounds", "2", "--workers", "0", *sizes]
    report = trainers.run([*words, *NOBODY])
    check_report(report, "trainers", {"ddp_step_time_ratio", "glue_lines_hf", "glue_lines_fsdp2"})
    figures = report["figures"]
    assert all(1 <= lines <= 10 for name, lines in figures.items() if name.startswith("glue"))
    assert figures["ddp_step_time_ratio"] > 0 and figures["ddp_rounds"] == 2


def test_an_interval_holds_the_median_of_what_its_numbers_come_from() -> None:
    from overlord_bench._intervals import of_median

    assert of_median([3, 1, 2]) == (1, 3, 0.75)
    low, high, confidence = of_median(list(range(9)))
    assert (low, high) == (1, 7) and confidence == pytest.approx(1 - 2 * 10 / 512)
    dice = np.random.default_rng(3)
    drawn = dice.lognormal(size=(2000, 9))
    held = [low <= 1 <= high for low, high, _ in (of_median(row.tolist()) for row in drawn)]
    assert np.mean(held) == pytest.approx(1 - 2 * 10 / 512, abs=0.015)


def test_waits_of_a_device_are_shares_of_its_time() -> None:
    pytest.importorskip("torch")
    from overlord_bench._contenders.gpu.marks import Marks

    marks = Marks("cpu")
    marks._asked, marks._given, marks._ready = [0.0, 10.0, 20.0], [1.0, 12.0], [2.0, 13.0]
    shares = marks.shares()
    assert shares["wait_share"] == 3 / 20 and shares["inputs_share"] == 5 / 20
    assert shares["longest_wait_ms"] == 3e3 and shares["microbatch_ms"] == 1e4

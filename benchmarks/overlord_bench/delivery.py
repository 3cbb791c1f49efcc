"""Pre-tokenised documents to packed batches in a Python loop, against other loaders.

Documents of web lengths lie on disk as Megatron .bin/.idx and as Parquet. Every contender reads
them in a shuffled order, packs whole documents, and fills tokens, targets, positions, loss weights
and cu_seqlens of 64 sequences of 4,096 tokens a step. Ours runs with its defaults through the
public API; peers use the NumPy packer of `_contenders/whole_packer.py`. `concat` figures have
documents concatenated and cut, by ours and by peers. All run in processes of their own, in
turn, several times; medians are reported. Files are in the page cache, and batches are not hashed.
`half_busy` figures are of a loop whose thread runs other Python code as long as it waits.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from overlord_bench import _contract, _peers, _web_corpus
from overlord_bench._contract import Figures
from overlord_bench._peers import Contender
from overlord_bench._quiet import Patience

OURS = "overlord"
COPY = "memcpy_two_threads"
ARROW = "pyarrow_two_threads"
BUSY = "-busy"
FORMATS = ("bin", "bin" + BUSY, "parquet")  # with BUSY: in a loop that computes half of the time
HALF_BUSY = 0.5  # cores of the loop's thread up to which a contender counts as overlapped
# Peers measured in the half busy loop too: the fastest of each kind.
IN_BUSY_LOOP = (
    "torch_dataloader/in_process",
    "torch_dataloader/1_worker",
    "torch_dataloader/2_workers",
    "torchdata_nodes/thread",
    "hf_datasets/2_workers",
    "grain/blocks/thread",
    "grain/blocks/2_workers",
    "mosaic_streaming/groups/2_workers",
)
TOGETHER = OURS + "/together"  # constructors in the loaders' process
TRACED = OURS + "/traced"  # with the trace on and off in turn
CUT = "/concat"  # documents concatenated and cut at sequence ends, instead of kept whole


def _peer_list() -> list[Contender]:
    torch, nodes, grain = "torch_dataloader", "torchdata_nodes", "grain_loader"
    hugging, mosaic = "hf_datasets", "mosaic_streaming"
    return [
        Contender("torch_dataloader/in_process", torch),
        Contender("torch_dataloader/1_worker", torch, {"workers": 1}),
        Contender("torch_dataloader/2_workers", torch, {"workers": 2}),
        Contender("torchdata_nodes/in_loop", nodes),
        Contender("torchdata_nodes/thread", nodes, {"threads": 1}),
        Contender("torchdata_nodes/2_threads", nodes, {"threads": 2}),
        Contender("hf_datasets/in_process", hugging),
        Contender("hf_datasets/1_worker", hugging, {"workers": 1}),
        Contender("hf_datasets/2_workers", hugging, {"workers": 2}),
        Contender("grain/blocks", grain),
        Contender("grain/blocks/thread", grain, {"place": "thread"}),
        Contender("grain/blocks/1_worker", grain, {"place": "1"}),
        Contender("grain/blocks/2_workers", grain, {"place": "2"}),
        Contender("mosaic_streaming/groups", mosaic, {"unit": "group"}),
        Contender("mosaic_streaming/groups/1_worker", mosaic, {"unit": "group", "workers": 1}),
        Contender("mosaic_streaming/groups/2_workers", mosaic, {"unit": "group", "workers": 2}),
    ]


def _cutting() -> list[Contender]:
    """The fastest with documents concatenated and cut, ours and peers."""
    torch, nodes, cut = "torch_dataloader", "torchdata_nodes", {"whole": False}
    return [
        Contender(OURS + CUT, "overlord_loader", {"method": "concat"}, is_peer=False),
        Contender("torch_dataloader/in_process" + CUT, torch, cut),
        Contender("torch_dataloader/2_workers" + CUT, torch, {**cut, "workers": 2}),
        Contender("torchdata_nodes/in_loop" + CUT, nodes, cut),
        Contender("torchdata_nodes/thread" + CUT, nodes, {**cut, "threads": 1}),
        Contender("hf_datasets/in_process" + CUT, "hf_datasets", cut),
    ]


def _by_document() -> list[Contender]:
    """Peers whose element is a single document, as their tutorials have it; .bin only."""
    return [
        Contender("grain/documents", "grain_loader", {"unit": "document"}),
        Contender("mosaic_streaming/documents", "mosaic_streaming"),
        Contender("mosaic_streaming/documents/2_workers", "mosaic_streaming", {"workers": 2}),
    ]


def _our_list(sweep: bool) -> list[Contender]:
    ours = [Contender(OURS, "overlord_loader", is_peer=False)]
    if sweep:
        runtimes = [{"threads": 1}, {"threads": 3}, {"io_threads": 1}, {"prefetch": 4}]
        for runtime in runtimes:
            ((name, value),) = runtime.items()
            setup = {"runtime": runtime}
            ours.append(Contender(f"{OURS}/{name}={value}", "overlord_loader", setup, {}, False))
    return ours


def _through_a_node() -> list[Contender]:
    """Ours that only a node has: constructors beside the loaders, and what tracing costs."""
    together = {"runtime": {"processes": {"constructors": 0}}}
    return [
        Contender(TOGETHER, "overlord_loader", together, is_peer=False),
        Contender(TRACED, "overlord_traced", is_peer=False),
    ]


def contenders_of(kind: str, sweep: bool, engine: str = "embedded") -> list[Contender]:
    """Who is measured on a format: ours, the ceiling, peers."""
    if kind.endswith(BUSY):
        return [*_our_list(False), *(peer for peer in _peer_list() if peer.key in IN_BUSY_LOOP)]
    if kind == "parquet":
        return [*_our_list(sweep), Contender(ARROW, "bare_arrow", is_peer=False), *_peer_list()]
    ceiling = Contender(COPY, "memory_copy", is_peer=False)
    node = _through_a_node() if engine == "processes" else []
    return [*_our_list(sweep), *node, ceiling, *_peer_list(), *_by_document(), *_cutting()]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="overlord bench delivery")
    parser.add_argument("--tokens", type=float, default=256e6, help="tokens of the corpus")
    parser.add_argument("--seconds", type=float, default=4.0, help="of every measured loop")
    parser.add_argument("--warmup", type=int, default=30, help="steps before the measured loop")
    parser.add_argument("--data", type=Path, default=_web_corpus.default_folder())
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--only", default="", help="contenders whose names begin so, with commas")
    parser.add_argument(
        "--engine",
        default="embedded",
        choices=("embedded", "processes"),
        help="of ours: all in the loop's process, or the host's node with its role processes",
    )
    parser.add_argument("--sweep", action="store_true", help="also ours with other settings")
    _peers.add_options(parser)
    return parser.parse_args(arguments)


def _wanted(contenders: list[Contender], only: str) -> list[Contender]:
    names = tuple(name for name in only.split(",") if name)
    return [item for item in contenders if not names or item.key.startswith(names)]


def run(arguments: list[str]) -> dict[str, Any]:
    """Measure all contenders on both formats."""
    options = _parse(arguments)
    host = _contract.machine()
    corpus = _web_corpus.WebCorpus(tokens=int(options.tokens))
    place = _web_corpus.prepare(corpus, options.data)
    pythons = _peers.find_pythons(options.peers)
    work = {
        "folder": str(place),
        "column": _web_corpus.COLUMN,
        "context": 4096,
        "bins": 64,
        "vocabulary": corpus.vocabulary,
        "whole": True,
        "engine": options.engine,
        "seconds": options.seconds,
        "warmup": options.warmup,
    }
    found: dict[str, dict[str, Figures]] = {}
    patience = Patience(options.patience)
    for kind in options.formats.split(","):
        wanted = _wanted(contenders_of(kind, options.sweep, options.engine), options.only)
        kind_work = {**work, "format": kind.removesuffix(BUSY), "half_busy": kind.endswith(BUSY)}
        found[kind] = _peers.interleave(pythons, wanted, kind_work, options.rounds, patience)
    settings = {
        "corpus": {**asdict(corpus), **_web_corpus.facts_of(place)},
        "parquet": "list<int32>, dictionary encoded, as pyarrow writes it",
        "sequences_per_step": work["bins"],
        "context": work["context"],
        "microbatch_size": work["bins"],
        "seconds": options.seconds,
        "rounds": options.rounds,
        "ours": f"best_fit, window shuffle, runtime defaults, engine {options.engine}",
        "peers": "best fit of whole documents in NumPy, shuffled in blocks",
    }
    figures = figures_of(*(found.get(kind, {}) for kind in ("bin", "parquet", "bin" + BUSY)))
    contenders = {
        key if kind == "bin" else f"{kind}:{key}": value
        for kind, runs in found.items()
        for key, value in runs.items()
    }
    return _contract.report("delivery", figures, contenders, settings, host)


def _speed(found: Mapping[str, Figures], key: str) -> float | None:
    value = found.get(key, {}).get("tokens_per_s")
    return float(value) if value is not None else None


def best_peer(
    found: Mapping[str, Figures], *, overlapped: bool = False, cut: bool = False
) -> tuple[str, float]:
    """The fastest peer and its tokens a second; `overlapped`: of those with a half free loop."""
    speeds = {
        key: float(value["tokens_per_s"])
        for key, value in found.items()
        if key.partition("/")[0] not in (OURS, COPY, ARROW)
        and "tokens_per_s" in value
        and key.endswith(CUT) == cut
        and (not overlapped or value["loop_cpu"] <= HALF_BUSY)
    }
    return max(speeds.items(), key=lambda item: item[1]) if speeds else ("none", 0.0)


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value and other else None


def figures_of(
    bin_runs: Mapping[str, Figures],
    parquet_runs: Mapping[str, Figures],
    busy_runs: Mapping[str, Figures],
) -> Figures:
    """The figures of the report; None where nothing was measured to compare with."""
    ours, parquet = _speed(bin_runs, OURS), _speed(parquet_runs, OURS)
    cut, busy = _speed(bin_runs, OURS + CUT), _speed(busy_runs, OURS)
    best, overlapped = best_peer(bin_runs), best_peer(bin_runs, overlapped=True)
    best_cut, best_busy = best_peer(bin_runs, cut=True), best_peer(busy_runs)
    best_parquet = best_peer(parquet_runs)
    copied = bin_runs.get(COPY, {}).get("bytes_per_s")
    return {
        "ratio_vs_best_peer": _ratio(ours, best[1]),
        "fraction_of_memcpy": _ratio(bin_runs.get(OURS, {}).get("bytes_per_s"), copied),
        "parquet_ratio_vs_best_peer": _ratio(parquet, best_parquet[1]),
        "parquet_fraction_of_arrow": _ratio(parquet, _speed(parquet_runs, ARROW)),
        "tokens_per_s": ours,
        "loop_cpu": bin_runs.get(OURS, {}).get("loop_cpu"),
        "ratio_vs_best_overlapped_peer": _ratio(ours, overlapped[1]),
        "together_tokens_per_s": _speed(bin_runs, TOGETHER),
        "trace_cost_percent": bin_runs.get(TRACED, {}).get("trace_cost_percent"),
        "parquet_tokens_per_s": parquet,
        "concat_tokens_per_s": cut,
        "concat_ratio_vs_best_peer": _ratio(cut, best_cut[1]),
        "half_busy_loop_tokens_per_s": busy,
        "half_busy_loop_ratio_vs_best_peer": _ratio(busy, best_busy[1]),
        "best_peer": best[0],
        "best_overlapped_peer": overlapped[0],
        "parquet_best_peer": best_parquet[0],
        "concat_best_peer": best_cut[0],
        "half_busy_loop_best_peer": best_busy[0],
    }

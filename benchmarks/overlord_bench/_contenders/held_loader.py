"""A trainer that reads some steps and then rests, holding its loader: for its memory.

`kind` of the work says which loader. With `empty` it imports what the loader needs and rests.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from overlord_bench._mixed_sources import COLUMN, path_of

DOCUMENTS = 64  # that are decoded at once from a source, by peers that decode in pieces
SHARING = "file_descriptor"  # torch's default: no manager process beside every worker


def paths_of(work: dict[str, Any]) -> list[str]:
    """The files of the sources that are read."""
    return [str(path_of(work["folder"], number)) for number in range(work["sources"])]


def weights_of(work: dict[str, Any]) -> list[float]:
    """By size, as a natural mixture has it; they add up to 1."""
    sizes = [Path(path).stat().st_size for path in paths_of(work)]
    return [size / sum(sizes) for size in sizes]


def job_config(work: dict[str, Any]) -> dict[str, Any]:
    """Our job over these sources."""
    names = [f"source{number:04}" for number in range(work["sources"])]
    files = dict(zip(names, paths_of(work), strict=True))
    runtime = dict(work.get("runtime", {}))
    processes = {**runtime.pop("processes", {}), "directory": work["directory"]}
    sized = work.get("sized", {})
    return {
        "job": "bench-memory",
        "seed": 7,
        "context": work["context"],
        "bins": work["bins"] * work["microbatches"] * work["mesh"]["dp"],
        "vocabulary": work["vocabulary"],
        "at_end": "repeat",
        "sources": {
            name: {"files": [path], "tokens": COLUMN, **sized} for name, path in files.items()
        },
        "mixture": {"weights": dict(zip(names, weights_of(work), strict=True))},
        "delivery": {"microbatch_size": work["bins"]},
        "index_dir": f"{work['folder']}/index",
        "runtime": {"processes": processes, **runtime},
    }


def hold_overlord(work: dict[str, Any]) -> Any:
    """Ours, with the host's one node."""
    import overlord as ol

    if work.get("empty"):
        _ = ol.mesh(**work["mesh"]), ol.job
        import overlord._core  # the engine, as the loader loads it

        return overlord._core
    job = ol.job(job_config(work), mesh=ol.mesh(**work["mesh"]))
    loader = job.train(int(os.environ["RANK"]), engine="processes")
    batch = None
    steps = loader.steps()
    for batch in taken(steps, work["steps"], work):
        for part in batch:
            _touch(part.tokens)
    return job, loader, steps, batch


def taken(batches: Iterator[Any], count: int, work: dict[str, Any]) -> Iterator[Any]:
    """So many of them; how long each `next()` took is told in the folder `waits`, if any."""
    waits = []
    for _ in range(count):
        began = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - began)
        yield batch
    if "waits" in work:
        told = Path(work["waits"]) / f"{os.environ['RANK']}.json"
        told.write_text(json.dumps(waits))


def _touch(array: Any) -> None:
    if array is not None and array.size:
        array.reshape(-1)[::1024].sum()


def endless(path: str) -> Iterator[Any]:
    """Documents of a Parquet file that stays open, over and over."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    while True:
        for batch in file.iter_batches(DOCUMENTS, columns=[COLUMN], use_threads=False):
            lists = batch.column(0)
            offsets, values = lists.offsets.to_numpy(), lists.values.to_numpy()
            for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
                yield values[begin:end]


def mixed_documents(work: dict[str, Any], part: int) -> Iterator[Any]:
    """Documents of all sources by their weights; every source is open all the time."""
    sources = [endless(path) for path in paths_of(work)]
    for source in sources:
        next(source)
    order = random.Random(7 + part)
    weights, numbers = weights_of(work), range(len(sources))
    while True:
        for number in order.choices(numbers, weights, k=256):
            yield [next(sources[number])]


def hold_torch(work: dict[str, Any]) -> Any:
    """torch's DataLoader in every rank, with workers that keep every source open."""
    import pyarrow.parquet
    import torch.utils.data

    from overlord_bench._contenders.torch_dataloader import loader_over, packed_dataset

    torch.set_num_threads(1)
    if work.get("empty"):
        return pyarrow.parquet, torch
    dataset = packed_dataset(
        lambda part, parts: mixed_documents(work, part), {**work, "whole": True}
    )
    return _take(iter(loader_over(dataset, work["workers"], work["prefetch"], SHARING)), work)


def _take(batches: Any, work: dict[str, Any]) -> Any:
    held = None
    for batch in taken(batches, work["steps"] * work["microbatches"], work):
        held = batch
    return batches, held


def convert_to_mds(work: dict[str, Any]) -> Path:
    """The sources as streams of Mosaic's format, one folder each; written once."""
    from streaming import MDSWriter  # type: ignore[import-not-found,unused-ignore]

    place = Path(work["folder"]) / "mds"
    for number, path in enumerate(paths_of(work)):
        folder = place / f"{number:04}"
        if (folder / "index.json").exists():
            continue
        import pyarrow.parquet as pq

        rows = pq.read_table(path).column(0)
        with MDSWriter(out=str(folder), columns={"tokens": "ndarray:uint16"}) as writer:
            for row in rows:
                writer.write({"tokens": row.values.to_numpy().astype("uint16")})
    return place


def hold_mosaic(work: dict[str, Any]) -> Any:
    """Mosaic Streaming: one stream per source, mixed by proportion, in a DataLoader."""
    import torch.utils.data
    from streaming import Stream, StreamingDataset

    from overlord_bench._contenders.torch_dataloader import loader_over

    torch.set_num_threads(1)
    if work.get("empty"):
        return torch
    place = Path(work["folder"]) / "mds"
    streams = [
        Stream(local=str(place / f"{number:04}"), proportion=weight)
        for number, weight in enumerate(weights_of(work))
    ]
    dataset = packed_stream(StreamingDataset, streams, work)
    return _take(
        _without_end(loader_over(dataset, work["workers"], work["prefetch"], SHARING)), work
    )


def _without_end(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def packed_stream(base: Any, streams: Any, work: dict[str, Any]) -> Any:
    """A StreamingDataset whose workers pack."""
    import torch

    from overlord_bench._contenders.torch_dataloader import shared_slab
    from overlord_bench._contenders.whole_packer import make_packer

    class PackedStream(base):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            lists = ([sample["tokens"]] for sample in super().__iter__())
            packer = make_packer({**work, "whole": True}, shared_slab)
            for slab, starts in packer.pack(lists):
                yield slab, torch.from_numpy(starts)

    # Ranks that share a data-parallel coordinate read the same samples.
    return PackedStream(
        streams=streams,
        shuffle=True,
        batch_size=work["bins"],
        replication=int(os.environ["WORLD_SIZE"]) // work["mesh"]["dp"],
    )


def hold_grain(work: dict[str, Any]) -> Any:
    """Grain: its Parquet reader per source, mixed by weights, packed in a thread or in workers."""
    import grain  # type: ignore[import-not-found,unused-ignore]
    import pyarrow.parquet

    from overlord_bench._contenders.grain_loader import packed

    if work.get("empty"):
        return grain, pyarrow.parquet
    workers = work["workers"]
    parts = [
        grain.experimental.RepeatIterDataset(
            grain.experimental.ParquetIterDataset([path] * max(1, workers))
        ).map(_tokens_of_row)
        for path in paths_of(work)
    ]
    steps = packed(
        grain.IterDataset.mix(parts, weights_of(work)), {**work, "whole": True, "unit": "block"}
    )
    if workers:
        options = grain.MultiprocessingOptions(
            num_workers=workers, per_worker_buffer_size=work["prefetch"]
        )
        steps = steps.mp_prefetch(options)
    else:
        steps = grain.experimental.ThreadPrefetchIterDataset(
            steps, prefetch_buffer_size=work["prefetch"]
        )
    return _take(iter(steps), work)


def _tokens_of_row(row: dict[str, Any]) -> list[Any]:
    return [row[COLUMN]]


KINDS = {
    "overlord": hold_overlord,
    "torch": hold_torch,
    "mosaic": hold_mosaic,
    "grain": hold_grain,
}


def main(words: str) -> None:
    """Hold the loader until standard input closes."""
    work = json.loads(words)
    try:
        if work.get("convert"):
            convert_to_mds(work)
        held = None if work.get("convert") else KINDS[work["kind"]](work)
    except ModuleNotFoundError as error:
        print(f"missing {error}", flush=True)
        return
    except Exception as error:
        print(f"failed {type(error).__name__}: {error}".replace("\n", " "), flush=True)
        raise
    print("ready", flush=True)
    sys.stdin.read()
    del held


if __name__ == "__main__":
    main(sys.argv[1])

"""One rank of ol.torch.broadcast: says what it got of each job in turn."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import torch.distributed as dist
from overlord.torch import broadcast

import overlord as ol


def digest(batch: Any) -> str:
    """Of everything a rank was given."""
    out = hashlib.blake2b(digest_size=8)
    parts = dict(batch.arrays())
    for name, media in batch.media.items():
        parts |= {f"{name} spans": media.token_spans, f"{name} grid": media.grid_thw}
        if media.data is not None:
            parts[f"{name} data"] = media.data
    for name, array in parts.items():
        out.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    numbers = (batch.step, batch.microbatch, batch.microbatches, batch.last_in_step)
    numbers += (batch.max_seqlen, batch.num_docs, batch.target_tokens, batch.step_target_tokens)
    out.update(repr(numbers).encode() + batch.lineage().tobytes())
    if batch.token_index is not None:
        out.update(batch.token_index.tobytes())
    return out.hexdigest()


def spoiled(batch: Any) -> str:
    """Its digest; then all of its tensors are overwritten, which nobody else may see."""
    seen = digest(batch)
    for tensor in batch.torch().values():
        tensor.fill_(7)
    return seen


class Failing:
    """A loader that fails after so many microbatches."""

    def __init__(self, loader: Any, after: int) -> None:
        self._loader, self._left = loader, after

    def __next__(self) -> Any:
        if self._left == 0:
            raise OSError("the disk is gone")
        self._left -= 1
        return next(self._loader)

    def close(self) -> None:
        self._loader.close()


def main() -> None:
    told = json.loads(sys.argv[1])
    rank, world = int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo", init_method=told["rendezvous"], rank=rank, world_size=world)
    for case in told["cases"]:
        job = ol.job(case["config"], mesh=ol.mesh(**case["mesh"]))
        words: dict[str, Any] = {"got": []}
        stream = broadcast(job, engine=told.get("engine", "embedded"))
        words["reads"] = stream.loader is not None
        if "fails_after" in case and words["reads"]:
            stream.loader = Failing(stream.loader, case["fails_after"])
        try:
            words["got"] += map(spoiled if case.get("spoils") else digest, stream)
        except BaseException as error:
            words["error"] = f"{type(error).__name__}: {error}"
        words |= {"messages": stream.messages, "sent": stream.sent_bytes}
        stream.close()
        print(json.dumps(words), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

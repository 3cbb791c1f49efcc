"""One rank of a tiny model under megatron-core's schedules, fed by the provider; says its losses.

Reading, broadcasting, saving and restoring are what Megatron-LM's training loop does around them:
TP rank 0 calls next() where the stage needs something, the state is taken from
`iterator.iterable.save_state()` on the first stage's TP rank 0 and lies in a file per
data-parallel rank.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_shim
import torch
import torch.distributed as dist
from megatron.core import parallel_state as mpu
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.rerun_state_machine import RerunDataIterator
from megatron.core.transformer import TransformerConfig
from overlord.megatron import provider

told = json.loads(sys.argv[1])
rank, world = int(sys.argv[2]), int(sys.argv[3])
assert torch.cuda.current_device() == "cpu", cuda_shim.__doc__
SIZES = {"tp": 1, "pp": 1, "vp": None, **told["mesh"]}
VOCABULARY, HIDDEN, STAGES = 96, 16, 4
KEYS = {"tokens": torch.int64, "labels": torch.int64, "loss_mask": torch.float32}


class Chunk(torch.nn.Module):
    """Some of the four layers, with the embedding before the first and the head behind the last."""

    def __init__(self, layers: list[int], config: Any) -> None:
        super().__init__()
        self.config = config
        self.model_type = None
        self.first, self.last = layers[0] == 0, layers[-1] == STAGES - 1
        torch.manual_seed(3)
        embedding = torch.nn.Embedding(VOCABULARY, HIDDEN)
        every = [torch.nn.Linear(HIDDEN, HIDDEN) for _ in range(STAGES)]
        head = torch.nn.Linear(HIDDEN, VOCABULARY)
        self.embedding = embedding if self.first else None
        self.layers = torch.nn.ModuleList(every[layer] for layer in layers)
        self.head = head if self.last else None
        self.given: Any = None

    def set_input_tensor(self, given: Any) -> None:
        self.given = given[0] if isinstance(given, list) else given

    def forward(self, tokens: Any) -> Any:
        hidden = self.given
        if self.embedding is not None:
            hidden = self.embedding(tokens).transpose(0, 1)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden if self.head is None else self.head(hidden).transpose(0, 1)


def get_batch(iterator: Any, chunk: Chunk) -> dict[str, Any]:
    """As Megatron-LM's: nothing on stages between, else TP rank 0 reads and broadcasts."""
    if not (chunk.first or chunk.last):
        return {}
    wanted = (["tokens"] if chunk.first else []) + (["labels", "loss_mask"] if chunk.last else [])
    data = next(iterator) if iterator is not None else {}
    shape = (told["rows"], told["context"])
    out = {}
    for key in wanted:
        tensor = data[key] if data else torch.empty(shape, dtype=KEYS[key])
        dist.broadcast(
            tensor,
            mpu.get_tensor_model_parallel_src_rank(),
            group=mpu.get_tensor_model_parallel_group(),
        )
        out[key] = tensor
    return out


def forward_step(iterator: Any, chunk: Chunk) -> tuple[Any, Any]:
    batch = get_batch(iterator, chunk)
    if "tokens" in batch:
        seen["tokens"].update(batch["tokens"].numpy().tobytes())
    if "labels" in batch:
        seen["labels"].update(batch["labels"].numpy().tobytes())

    def loss_of(logits: Any) -> tuple[Any, Any, Any]:
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), batch["labels"].flatten(), reduction="none"
        )
        weights = batch["loss_mask"].flatten()
        total = (losses * weights).sum()
        count = weights.sum().to(torch.int)
        return total, count, {"loss": torch.stack([total.detach(), weights.sum()])}

    return chunk(batch.get("tokens")), loss_of


def iterators(provide: Any) -> Any:
    """As Megatron-LM builds them: called once, or for every virtual stage."""
    stages = [None] if SIZES["vp"] is None else range(SIZES["vp"])
    made = []
    for stage in stages:
        train, valid, _ = provide([1, 1, 1], vp_stage=stage)
        assert valid is None
        made.append(None if train is None else RerunDataIterator(train))
    return made if SIZES["vp"] else made[0]


def save(iterator: Any, iteration: int) -> None:
    first = iterator[0] if isinstance(iterator, list) else iterator
    if first is None or mpu.get_tensor_model_parallel_rank() or not mpu.is_pipeline_first_stage():
        return
    folder = Path(told["folder"], f"iter_{iteration:07d}", "mp_rank_00")
    folder.mkdir(parents=True, exist_ok=True)
    name = f"train_dataloader_dprank{mpu.get_data_parallel_rank():03d}.pt"
    torch.save({"dataloader_state_dict": first.iterable.save_state()}, folder / name)


dist.init_process_group("gloo", init_method=told["rendezvous"], rank=rank, world_size=world)
mpu.initialize_model_parallel(SIZES["tp"], SIZES["pp"], SIZES["vp"])
seen = {"tokens": hashlib.blake2b(), "labels": hashlib.blake2b()}
config = TransformerConfig(
    num_layers=STAGES,
    hidden_size=HIDDEN,
    num_attention_heads=2,
    pipeline_model_parallel_size=SIZES["pp"],
    virtual_pipeline_model_parallel_size=SIZES["vp"],
    pipeline_dtype=torch.float32,
    calculate_per_token_loss=True,
    deallocate_pipeline_outputs=False,
    # Between two ranks both directions are one pair of peers: they need messages of their own.
    overlap_p2p_comm=SIZES["vp"] is not None,
    batch_p2p_comm=SIZES["vp"] is None,
)
chunks_here = SIZES["vp"] or 1
each = STAGES // (SIZES["pp"] * chunks_here)
places = [mpu.get_pipeline_model_parallel_rank() + SIZES["pp"] * n for n in range(chunks_here)]
model = [Chunk(list(range(place * each, place * each + each)), config) for place in places]
arguments = SimpleNamespace(
    iteration=told["begin"],
    load=told["folder"] if told["begin"] else None,
    dataloader_save=told["folder"],
    seq_length=told["context"],
    global_batch_size=told["bins"],
    micro_batch_size=told["rows"],
)
provide = provider(told["config"], arguments=arguments, engine=told["engine"])
assert provide.is_distributed
iterator = iterators(provide)
microbatches = told["bins"] // told["rows"] // mpu.get_data_parallel_world_size()
weights = Path(told["folder"], "weights.pt")
parameters = [parameter for chunk in model for parameter in chunk.parameters()]
for step in range(told["begin"], told["end"]):
    for parameter in parameters:
        parameter.grad = None
    seen = {name: hashlib.blake2b() for name in seen}
    found = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=iterator,
        model=model if SIZES["vp"] else model[0],
        num_microbatches=microbatches,
        seq_length=told["context"],
        micro_batch_size=told["rows"],
        forward_only=False,
    )
    totals = torch.zeros(2)
    if mpu.get_tensor_model_parallel_rank() == 0:
        for part in found:
            totals += part["loss"]
    dist.all_reduce(totals)
    with torch.no_grad():
        for parameter in parameters:
            dist.all_reduce(parameter.grad, group=mpu.get_data_parallel_group())
            parameter -= 0.5 * parameter.grad / totals[1]
    digests = {name: digest.hexdigest()[:16] for name, digest in seen.items()}
    print(json.dumps({"step": step, "loss": float(totals[0] / totals[1]), **digests}), flush=True)
    if step + 1 == told.get("save"):
        save(iterator, step + 1)
    dist.barrier()
reads = [one for one in (iterator if isinstance(iterator, list) else [iterator]) if one is not None]
print(json.dumps({"reads": len(reads)}), flush=True)
for one in reads:
    one.iterable.close()
dist.destroy_process_group()

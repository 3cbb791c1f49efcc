"""One data-parallel rank of torchtitan's dataloader: reads by its generator, keeps it by DCP."""

from __future__ import annotations

import hashlib
import json
import sys
from types import SimpleNamespace
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torchtitan.components.dataloader import DataloaderExhaustedError
from torchtitan.trainer import Trainer

from overlord import titan

told = json.loads(sys.argv[1])
rank, world = int(sys.argv[2]), int(sys.argv[3])
dist.init_process_group("gloo", init_method=told["rendezvous"], rank=rank, world_size=world)
groups = world // told["peers"]
loader = titan.DataLoader.Config(job=told["job"], engine="embedded").build(
    dp_world_size=groups,
    dp_rank=rank // told["peers"],
    tokenizer=None,
    seq_len=told["context"],
    local_batch_size=told["rows"],
    snapshot_every_n_steps=1,
)
if told.get("load"):
    state = {"dataloader": loader}
    dcp.load(state, checkpoint_id=told["load"])
trainer: Any = SimpleNamespace(
    metrics_processor=SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
)
batches = Trainer.batch_generator(trainer, loader)
for _ in range(told["steps"]):
    rows = []
    try:
        for _ in range(told["bins"] // told["rows"] // groups):
            inputs, labels = next(batches)
            assert set(inputs) == {"input", "positions"}
            for row in zip(inputs["input"], inputs["positions"], labels, strict=True):
                packed = b"".join(part.numpy().tobytes() for part in row)
                rows.append(hashlib.blake2b(packed, digest_size=8).hexdigest())
    except DataloaderExhaustedError:
        break
    print(json.dumps({"rows": rows}), flush=True)
if told.get("save"):
    dcp.save({"dataloader": loader}, checkpoint_id=told["save"])
loader.close()
dist.destroy_process_group()

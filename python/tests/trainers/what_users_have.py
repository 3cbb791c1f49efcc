"""What a user of each trainer has before Overlord comes: a function per page of docs/trainers.

Plain gradient descent everywhere, so that a gradient of another size gives other losses.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SAVE_EVERY = 2


def newest(pattern: str) -> str | None:
    """The last checkpoint that was finished."""
    found = sorted(Path.cwd().glob(pattern), key=lambda path: path.stat().st_mtime_ns)
    return str(found[-1]) if found else None


def hf_arguments(kind: Any, steps: int, rate: float, **more: Any) -> Any:
    return kind(
        output_dir="out",
        max_steps=steps,
        learning_rate=rate,
        optim="sgd",
        lr_scheduler_type="constant",
        max_grad_norm=0,
        save_strategy="steps",
        save_steps=SAVE_EVERY,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )


def hf(model: Any, steps: int, rate: float) -> dict[str, Any]:
    from transformers import Trainer, TrainingArguments
    from transformers.trainer_utils import get_last_checkpoint

    args = hf_arguments(TrainingArguments, steps, rate)
    last = get_last_checkpoint("out") if Path("out").exists() else None
    return {"Trainer": Trainer, "args": args, "model": model, "last_checkpoint": last}


def sft(model: Any, steps: int, rate: float) -> dict[str, Any]:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from transformers.trainer_utils import get_last_checkpoint
    from trl import SFTConfig, SFTTrainer

    words = {str(number): number for number in range(model.config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, "0")), eos_token="1", pad_token="0"
    )
    args = hf_arguments(SFTConfig, steps, rate, bf16=False, gradient_checkpointing=False)
    last = get_last_checkpoint("out") if Path("out").exists() else None
    return {
        "SFTTrainer": SFTTrainer,
        "args": args,
        "model": model,
        "tokenizer": tokenizer,
        "last_checkpoint": last,
    }


def ddp(model: Any, steps: int, rate: float) -> dict[str, Any]:
    dist.init_process_group("gloo")
    last = newest("step-*.pt")
    checkpoint = torch.load(last, weights_only=True) if last else None
    if checkpoint:
        model.load_state_dict(checkpoint["model"])
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    count = len(list(Path.cwd().glob("step-*.pt")))

    def save(saved: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if dist.get_rank() == 0:
            torch.save(saved, "writing")
            os.replace("writing", f"step-{count}.pt")
        dist.barrier()

    return {
        "model": wrapped,
        "optimizer": torch.optim.SGD(wrapped.parameters(), lr=rate),
        "dist": dist,
        "contextlib": contextlib,
        "checkpoint": checkpoint,
        "save": save,
        "save_every": SAVE_EVERY,
    }


def fsdp2(model: Any, steps: int, rate: float) -> dict[str, Any]:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    class App:
        def state_dict(self) -> dict[str, Any]:
            weights, moments = get_state_dict(model, optimizer)
            return {"model": weights, "optimizer": moments}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            set_state_dict(
                model,
                optimizer,
                model_state_dict=state["model"],
                optim_state_dict=state["optimizer"],
            )

    done = newest("step-*/.metadata")  # written last
    return {
        "model": model,
        "optimizer": optimizer,
        "app": App(),
        "dcp": dcp,
        "dist": dist,
        "last": os.path.dirname(done) if done else None,
        "save_every": SAVE_EVERY,
    }


def accelerate(model: Any, steps: int, rate: float) -> dict[str, Any]:
    from accelerate import Accelerator

    return {
        "accelerator": Accelerator(cpu=True),
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=rate),
        "contextlib": contextlib,
        "last": newest("step-*"),
        "save_every": SAVE_EVERY,
    }


def lightning(model: Any, steps: int, rate: float) -> dict[str, Any]:
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

    trainer = Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        strategy="ddp",
        max_steps=steps,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint("out", "{step}", every_n_train_steps=SAVE_EVERY, save_top_k=-1)],
    )
    return {
        "LightningModule": LightningModule,
        "trainer": trainer,
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=rate),
        "last": newest("out/*.ckpt"),
    }


def jax(_: Any, steps: int, rate: float) -> dict[str, Any]:
    """Words and places, and the mean of what a document has said so far."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from packed_job import VOCABULARY

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    address = f"{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
    world, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    jax.distributed.initialize(address, world, rank)
    sharding = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
    dice = np.random.default_rng(0)
    params = {
        "words": dice.normal(size=(VOCABULARY, 16)).astype(np.float32),
        "places": dice.normal(size=(64, 16)).astype(np.float32),
        "out": dice.normal(size=(16, VOCABULARY)).astype(np.float32),
    }
    last = newest("step-*.npz")
    checkpoint = dict(np.load(last, allow_pickle=True)) if last else None
    if checkpoint:
        checkpoint["data"] = checkpoint["data"].item()
        params = {name: checkpoint[name] for name in params}

    def loss_of(params: Any, arrays: Any) -> Any:
        documents = arrays["inputs_segmentation"]
        seen = jnp.tril(documents[:, :, None] == documents[:, None, :]).astype(jnp.float32)
        words = params["words"][arrays["inputs"]] + params["places"][arrays["inputs_position"]]
        heard = seen @ words / seen.sum(-1, keepdims=True)
        chances = jax.nn.log_softmax(heard @ params["out"])
        losses = -jnp.take_along_axis(chances, arrays["targets"][:, :, None], -1)[:, :, 0]
        counted = arrays["targets_segmentation"] > 0
        return (losses * counted).sum() / counted.sum()

    @jax.jit
    def train_step(params: Any, arrays: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(params, arrays)
        return jax.tree.map(lambda p, slope: p - rate * slope, params, slopes), loss

    def save(params: Any, state: dict[str, Any]) -> None:
        if rank == 0:
            with open("writing", "wb") as file:
                np.savez(file, data=np.array(state, dtype=object), **params)
            os.replace("writing", f"step-{state['step']}.npz")

    return {
        "jax": jax,
        "rows": 8,
        "sharding": sharding,
        "params": params,
        "train_step": train_step,
        "checkpoint": checkpoint,
        "save": save,
        "save_every": SAVE_EVERY,
    }

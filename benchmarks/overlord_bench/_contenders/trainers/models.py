"""Models of the benches over trainers, with chance for weights."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import torch

# hidden, intermediate, layers, heads, heads of keys
LLAMAS = {
    "tiny": (64, 256, 2, 4, 2),
    "160m": (768, 3072, 12, 12, 12),
    "1b": (2048, 8192, 16, 32, 8),
}


def llama(size: str, vocabulary: int, context: int, device: str) -> Any:
    """A Llama of transformers on the device: bfloat16 on a GPU, float32 on the CPU."""
    import transformers  # type: ignore[import-not-found,unused-ignore]

    hidden, between, layers, heads, keys = LLAMAS[size]
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=between,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        use_cache=False,
    )
    return made(lambda: transformers.LlamaForCausalLM(config), device)


def made(make: Any, device: str) -> Any:
    """A model that is made where it trains, the same each time."""
    torch.manual_seed(0)
    with torch.device(device):
        model = make()
    return model.to(torch.bfloat16) if device == "cuda" else model


def threads_for(device: str) -> None:
    """One thread of torch, as ranks of one host are given."""
    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.init()


def wait_for(device: str) -> None:
    """Until the device has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def alone(device: str) -> Iterator[None]:
    """A process group of this process, as FSDP2 and DDP want one."""
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Trainers print what they log; a contender says its figures alone."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield

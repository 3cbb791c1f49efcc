"""For tests alone: lets megatron-core's schedules run on the CPU, where it asks CUDA by name.

Nothing of Overlord needs it. Imported before megatron, which it imports itself.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch


def _on_cpu(function: Any) -> Any:
    def made(*arguments: Any, **named: Any) -> Any:
        if "device" in named:
            named["device"] = "cpu"
        return function(*arguments, **named)

    return made


def _install() -> None:
    """Tensors that are asked for on a device lie on the CPU, and there is nothing to wait for."""
    for name in ("zeros", "empty", "ones", "tensor"):
        setattr(torch, name, _on_cpu(getattr(torch, name)))
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment,return-value]
    torch.cuda.synchronize = lambda *_: None  # type: ignore[assignment]
    torch.Tensor.cuda = lambda self, *_, **__: self  # type: ignore[method-assign,assignment]
    from megatron.core.tensor_parallel import random

    random.CudaRNGStatesTracker.fork = lambda *_, **__: contextlib.nullcontext()


_install()

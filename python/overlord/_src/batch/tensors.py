"""Torch tensors of the arrays of a batch. Torch is imported by the first that is asked for."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
_first_torch = threading.Lock()
_warned_torch = False
_sending = threading.Lock()
_sent: deque[tuple[Any, list[Array]]] = deque()  # what a device may still be reading, and its event


def _torch() -> Any:
    return sys.modules.get("torch") or importlib.import_module("torch")


def as_tensor(array: Array) -> Any:
    """A tensor over the array's memory. Torch warns once about read-only arrays; we mean it."""
    global _warned_torch
    torch = _torch()
    if _warned_torch or array.flags.writeable:
        return torch.from_numpy(array)
    with _first_torch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(array)
        _warned_torch = True
        return tensor


def plain_tensor(array: Array, device: Any = None) -> Any:
    """A tensor over the array's memory, or a copy of it on a device."""
    return as_tensor(array) if is_host(device) else as_tensor(array).to(device)


def is_host(device: Any) -> bool:
    """Whether tensors for this device lie in the host's memory."""
    return device is None or str(device) == "cpu"


def own_tensor(array: Array, pinned: bool) -> Any:
    """A tensor with a copy of the array, in pinned memory where the array's is."""
    shared = as_tensor(array)
    return _torch().empty_like(shared, pin_memory=pinned).copy_(shared)


def on_device(arrays: Mapping[str, Array], device: Any, pinned: bool) -> dict[str, Any]:
    """Copies on a device. Pinned memory is copied while the host goes on, and held until then."""
    sent = {
        name: as_tensor(array).to(device, non_blocking=pinned) for name, array in arrays.items()
    }
    if not pinned:
        return sent
    torch = _torch()
    done = torch.cuda.Event()
    done.record(torch.cuda.current_stream(device))
    with _sending:
        while _sent and _sent[0][0].query():
            _sent.popleft()
        _sent.append((done, list(arrays.values())))
    return sent

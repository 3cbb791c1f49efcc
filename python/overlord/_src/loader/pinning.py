"""Which CUDA device the memory of batches is registered with."""

from __future__ import annotations

import os
import sys

from overlord._src.native import core


def find_pinning(pin: bool | int) -> core.HostPinning | None:
    """Who pins memory for `pin`; None where it is not asked for. Raises where nobody can."""
    if pin is False:
        return None
    if pin is not True and pin < 0:
        raise core.InvalidArgumentError(f"pin must be a bool or a device number, not {pin}")
    return core.cuda_pinning(_current_device() if pin is True else pin)


def _current_device() -> int:
    """The device of this rank: torch's where it has chosen one, else the launcher's local rank."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    # A launcher that shows every rank one device alone calls it 0.
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    alone = visible != "" and "," not in visible
    return 0 if alone else int(os.environ.get("LOCAL_RANK", "0"))

"""DeviceFeed: microbatches on their way to a device while the one before is trained.

Copies run on a stream of their own, which only overlaps where they read pinned memory (`pin=True`).
The stream that computes waits for a batch when it is handed out, and torch is told that it uses the
memory, so that the memory is not given to a later copy too early. On the CPU nothing is copied.
"""

from __future__ import annotations

from typing import Any

from overlord._src.batch.microbatch import Microbatch


class DeviceFeed:
    """Sends batches to one device, in order."""

    def __init__(self, device: Any) -> None:
        self._device = device
        self._stream: Any = None

    def send(self, batch: Microbatch) -> Microbatch:
        """Begin to copy it; gives the batch on the device."""
        if not str(self._device).startswith("cuda"):
            return batch.to(self._device)
        import torch

        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        with torch.cuda.stream(self._stream):
            return batch.to(self._device)

    def arrived(self, batch: Microbatch) -> Microbatch:
        """A batch that was sent, for the stream that computes now."""
        if self._stream is None:
            return batch
        import torch

        computing = torch.cuda.current_stream(self._device)
        # Also what was sent after it: the next is asked for behind this.
        computing.wait_stream(self._stream)
        for tensor in batch.sent():
            tensor.record_stream(computing)
        return batch

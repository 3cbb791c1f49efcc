"""EncoderPart: one rank's part in an encoder with owners of its own, for one microbatch.

The rank encodes `samples` and takes part in one all-to-all over the ranks of `group`, whose places
are what the splits count by:

    part = batch.encoder
    rows = encode(part.samples)[part.send_rows()]            # [sum(send_units), hidden]
    arrived = rows.new_empty(int(part.receive_units.sum()), hidden)
    dist.all_to_all_single(arrived, rows, part.receive_units.tolist(), part.send_units.tolist())
    embeddings = torch.empty_like(arrived)
    embeddings[part.receive_rows()] = arrived                # as `part.received`, in order

Gradients go the same way back with the splits exchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.media import Media
from overlord._src.batch.native_field import NativeField

Array = npt.NDArray[Any]
SAMPLE = [(name, "<i8") for name in ("source", "pass", "position", "part", "first", "units")]


class EncoderPart:
    """What one rank encodes in a microbatch, what it sends, and what it gets."""

    __slots__ = ("_native", "media")

    def __init__(self, native: Any, media: dict[str, Media] | None = None) -> None:
        self._native = native
        #: Media of `samples` by field; `documents` of them are places in `samples`.
        self.media = media or {}

    def _field(self, name: str) -> Any:
        return getattr(self._native, name)

    module = NativeField[str]("Name of the encoder, as the strategy has it.")
    encoder = NativeField[int]("Number of this rank's consumer at the encoder's axis.")
    encoders = NativeField[int]("Consumers at the encoder's axis.")
    runs = NativeField[bool]("Whether this rank encodes; otherwise it only receives.")
    receives = NativeField[bool]("Whether this rank's tokens need the output.")
    dummy = NativeField[bool](
        "Whether the rank has no sample and must run all the same (parity), sending nothing."
    )
    bytes_per_unit = NativeField[int](
        "Of the output, as the strategy declares it; 0 where it does not."
    )
    group = NativeField[Array](
        "Ranks of the exchange, ascending, uint32: the same in every microbatch."
    )

    @property
    def samples(self) -> Array:
        """What this rank encodes, in order: source, pass, position, part, first, units."""
        return _structured(self._native.samples)

    send_order = NativeField[Array](
        "What is sent, peer after peer, as indices into `samples`, uint32."
    )
    send_samples = NativeField[Array]("Samples to each rank of the group, int64.")
    send_units = NativeField[Array](
        "Units to each rank of the group, int64: the input split sizes."
    )

    @property
    def received(self) -> Array:
        """What this rank's microbatch needs, in its order; fields as of `samples`."""
        return _structured(self._native.received)

    documents = NativeField[Array](
        "Of each of `received`: its row in the microbatch's lineage, uint32."
    )
    receive_order = NativeField[Array](
        "Of what arrives, peer after peer: its place in `received`, uint32."
    )
    receive_samples = NativeField[Array]("Samples from each rank of the group, int64.")
    receive_units = NativeField[Array](
        "Units from each rank of the group, int64: the output split sizes."
    )

    def send_rows(self) -> Array:
        """Rows of the encoder's output (one per unit, as `samples`) in the order they are sent."""
        return _unit_rows(self.samples["units"], self.send_order)

    def receive_rows(self) -> Array:
        """Of every row that arrives: where it belongs among the rows of `received`."""
        return _unit_rows(self.received["units"], self.receive_order)

    def __repr__(self) -> str:
        role = "a dummy" if self.dummy else f"{len(self.samples)} samples"
        return (
            f"EncoderPart({self.module} {self.encoder}/{self.encoders}, encodes {role}, "
            f"receives {len(self.received)} of {len(self.group)} ranks)"
        )


def _structured(rows: Array) -> Array:
    return rows.view(SAMPLE).reshape(-1)


def _unit_rows(units: Array, order: Array) -> Array:
    """Rows of the samples in `order`, where sample i has `units[i]` rows one after another."""
    counts = units[order]
    starts = (np.cumsum(units) - units)[order]
    before = np.cumsum(counts) - counts
    rows: Array = np.repeat(starts - before, counts) + np.arange(int(counts.sum()))
    return rows

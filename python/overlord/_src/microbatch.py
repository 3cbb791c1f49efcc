"""Microbatch: one rank's part of one microbatch, as arrays without a copy."""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import numpy.typing as npt

from overlord._src.encoder_part import EncoderPart
from overlord._src.media_batch import Media
from overlord._src.native import core

if TYPE_CHECKING:
    from overlord.hdp import Share

T = TypeVar("T")
Array = npt.NDArray[Any]
_ARRAYS = ("tokens", "targets", "loss_weights", "positions", "cu_seqlens", "cu_seqlens_padded")
LINEAGE = [
    (name, "<i8") for name in ("source", "pass", "position", "first", "count", "bin", "flags")
]
HOLE = (
    1 << 16
)  # in the flags of a lineage row: served as padding, because the document was found bad
_first_torch = threading.Lock()
_warned_torch = False


class _Native(Generic[T]):
    """A field that the engine's record has under the same name, or under `alias`."""

    def __init__(self, doc: str, alias: str = "") -> None:
        self.__doc__ = doc
        self._name = alias

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    @overload
    def __get__(self, batch: None, owner: type) -> _Native[T]: ...

    @overload
    def __get__(self, batch: Microbatch, owner: type) -> T: ...

    def __get__(self, batch: Microbatch | None, owner: type) -> T | _Native[T]:
        if batch is None:
            return self
        value: T = batch._field(self._name)
        return value


class Microbatch:
    """What one rank receives: arrays that live as long as they are held, read-only, never copied.

    Read with `writable=True` they are private copies that may be changed. A field that this rank
    does not need (by its pipeline stage or a broadcast) is None.
    """

    __slots__ = ("_copies", "_native", "_peers", "_slicing")

    def __init__(
        self,
        native: Any,
        peers: Callable[[], Sequence[int]] = lambda: (0,),
        writable: bool = False,
        slicing: str = "sequence_zigzag",
    ) -> None:
        self._native = native
        self._peers = peers
        self._slicing = slicing
        # Private pages: made once per batch, so that all views of a field are one array.
        self._copies: dict[str, Array] | None = {} if writable else None

    def _field(self, name: str) -> Any:
        value = getattr(self._native, name)
        if self._copies is None or name not in _ARRAYS or value is None:
            return value
        if name not in self._copies:
            self._copies[name] = value.copy()
        return self._copies[name]

    step = _Native[int]("The optimizer step this belongs to.")
    microbatch = _Native[int]("Its number within the step, from 0.")
    microbatches = _Native[int]("Microbatches of the step for this rank.")
    last_in_step = _Native[bool]("Whether the step ends with it.")
    tokens = _Native[Array | None](
        "Input token ids, [microbatch_size, tokens of this rank's slice]."
    )
    targets = _Native[Array | None]("The next token of every token: already shifted.")
    labels = _Native[Array | None]("Another name for `targets`.", "targets")
    loss_weights = _Native[Array | None](
        "Weight of every target in the loss; 0 for padding and masked tokens."
    )
    positions = _Native[Array | None](
        "Position of every token in its document, int32; 0 starts a document."
    )
    cu_seqlens = _Native[Array | None](
        "Cumulative real document lengths of the whole microbatch, int32, n + 1."
    )
    cu_seqlens_padded = _Native[Array | None](
        "Where documents begin in the padded microbatch, int32, n + 1."
    )
    max_seqlen = _Native[int]("Longest document of the microbatch.")
    num_docs = _Native[int]("Documents, or pieces of them, in the microbatch.")
    num_tokens = _Native[int]("Real tokens of the microbatch, over all its slices.")
    target_tokens = _Native[int]("Tokens of this microbatch that carry loss.")
    step_target_tokens = _Native[int](
        "Tokens of the whole step, over all ranks, that carry loss: the loss's normaliser."
    )
    fill = _Native[float]("Share of the microbatch's places that hold real tokens.")
    nbytes = _Native[int]("Bytes of this rank's arrays.")

    @property
    def hdp(self) -> Share | None:
        """Group and slices, where the strategy is hybrid data parallelism; otherwise None."""
        data = self._native.hdp()
        if data is None:
            return None
        from overlord.hdp import share_of

        return share_of(data, self._peers(), self.step_target_tokens)

    @property
    def encoder(self) -> EncoderPart | None:
        """This rank's part in the strategy's encoder; None where it has none."""
        native = self._native.encoder
        if native is None:
            return None
        return EncoderPart(native, self._media("encoded", self._native.encoded_media()))

    @property
    def media(self) -> dict[str, Media]:
        """Media of its documents by field name; fields without any in this microbatch are absent.

        Ranks without payload (middle pipeline stages) have none, those without tokens no data.
        """
        return self._media("media", self._native.media())

    @property
    def token_index(self) -> Array | None:
        """int64, shaped like `tokens`: where each stands in the whole microbatch, before slicing.

        `media[...].token_spans` and `cu_seqlens_padded` count there. None where this rank has no
        tokens or targets, or where slices of documents are dealt (`hdp` says which).
        """
        if self._native.hdp() is not None:
            return None
        index: Array | None = self._native.token_index(getattr(core.Slicing, self._slicing))
        return index

    def mrope_positions(self, merge: int = 2, fields: Sequence[str] | None = None) -> Array | None:
        """Positions in three planes (time, height, width) as Qwen2-VL counts them, for this slice.

        int32 [3, *tokens.shape]; 0 starts a document. `fields` are the media whose placeholders
        stand for patches, `merge` x `merge` of them each; None: all whose placeholders fit that.
        None where `token_index` is None.
        """
        from overlord._src.model_positions import mrope_positions, patched_fields

        index = self.token_index
        if index is None or self.cu_seqlens is None or self.cu_seqlens_padded is None:
            return None
        media = self.media
        names = patched_fields(media, merge) if fields is None else fields
        lengths = np.diff(self.cu_seqlens)
        planes: Array = mrope_positions(self.cu_seqlens_padded, lengths, media, names, merge)
        return planes[:, index]

    def _media(self, kind: str, fields: dict[str, tuple[Array | None, Array]]) -> dict[str, Media]:
        out = {}
        for name, (data, items) in fields.items():
            if data is not None and self._copies is not None:
                key = f"{kind}.{name}"
                if key not in self._copies:
                    self._copies[key] = data.copy()
                data = self._copies[key]
            out[name] = Media(name, data, items)
        return out

    def lineage(self) -> Array:
        """Which document each segment comes from, as a structured array.

        Fields: source (its number in the job), pass, position, first, count, bin, flags.
        """
        rows: Array = self._native.lineage()
        return rows.view(LINEAGE).reshape(-1)

    def arrays(self) -> dict[str, Array]:
        """The arrays this rank has, by field name."""
        named = ((name, self._field(name)) for name in _ARRAYS)
        return {name: array for name, array in named if array is not None}

    def torch(self) -> dict[str, Any]:
        """The same arrays as CPU torch tensors over the same memory.

        Unless they were read with `writable=True` they are read-only, which torch does not know: an
        in-place operation ends the process where the memory belongs to a node.
        """
        return {name: as_tensor(array) for name, array in self.arrays().items()}

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={array.dtype}{list(array.shape)}" for name, array in self.arrays().items()
        )
        place = f"step={self.step}, microbatch={self.microbatch}/{self.microbatches}"
        return f"Microbatch({place}, {fields or 'no fields for this rank'})"


def as_tensor(array: Array) -> Any:
    """A tensor over the array's memory. Torch warns once about read-only memory; we mean it."""
    global _warned_torch
    torch: Any = sys.modules.get("torch") or importlib.import_module("torch")
    if _warned_torch or array.flags.writeable:
        return torch.from_numpy(array)
    with _first_torch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(array)
        _warned_torch = True
        return tensor

"""Microbatch: one rank's part of one microbatch, as arrays without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from overlord._src.batch.encoder_part import EncoderPart
from overlord._src.batch.media import Media
from overlord._src.batch.model_inputs import model_inputs
from overlord._src.batch.mrope_positions import mrope_positions, patched_fields
from overlord._src.batch.native_field import NativeField
from overlord._src.batch.tensors import as_tensor, is_host, on_device, own_tensor

if TYPE_CHECKING:
    from overlord._src.state.kept_states import StateMaker
    from overlord.hdp import Share

Array = npt.NDArray[Any]
_ARRAYS = ("tokens", "targets", "loss_weights", "positions", "cu_seqlens", "cu_seqlens_padded")
LINEAGE = [
    (name, "<i8") for name in ("source", "pass", "position", "first", "count", "bin", "flags")
]
HOLE = (
    1 << 16
)  # in the flags of a lineage row: served as padding, because the document was found bad


@dataclass(frozen=True)
class BatchForm:
    """What the batches of a loader are made like."""

    slicing: str = "sequence_zigzag"  # of context-parallel ranks
    writable: bool = False  # arrays are copies that may be changed
    private: bool = False  # their memory is this batch's alone: a write is seen by nobody else
    pinned: bool = False  # it is registered with CUDA


_NO_LABELS = (
    "a microbatch has no `labels`: `targets` are the next tokens, already shifted, and models that "
    "take labels shift them once more; feed such a model `batch.model_inputs('hf', model=model)`"
)


class Microbatch:
    """What one rank receives: arrays that live as long as they are held, read-only, never copied.

    Read with `writable=True` they are private copies that may be changed. A field that this rank
    does not need (by its pipeline stage or a broadcast) is None.
    """

    __slots__ = ("_copies", "_device", "_form", "_native", "_peers", "_place", "_states")

    def __init__(
        self,
        native: Any,
        peers: Callable[[], Sequence[int]],
        form: BatchForm,
        place: Any,
        states: StateMaker,
    ) -> None:
        self._native = native
        self._peers = peers
        self._form = form
        self._place = place
        self._states = states
        # Made once per batch, so that all views of a field are one array.
        self._copies: dict[str, Any] = {}
        self._device: Any = None  # where its tensors are, once it was moved

    def _copied(self, key: str, value: Any, copy: Callable[[Any], Any]) -> Any:
        if key not in self._copies:
            self._copies[key] = copy(value)
        return self._copies[key]

    def _field(self, name: str) -> Any:
        value = getattr(self._native, name)
        if not self._form.writable or name not in _ARRAYS or value is None:
            return value
        return self._copied(name, value, np.copy)

    def _tensor(self, key: str, array: Array, device: Any = None) -> Any:
        device = self._device if device is None else device
        if not is_host(device):
            return self._sent({key: array}, device)[key]
        if self._form.private or array.flags.writeable:
            return as_tensor(array)
        return self._copied(f"torch.{key}", array, partial(own_tensor, pinned=self._form.pinned))

    def _sent(self, arrays: dict[str, Array], device: Any) -> dict[str, Any]:
        """Copies of arrays on a device: made once where the batch was moved there."""
        if str(device) != str(self._device):
            return on_device(arrays, device, self._form.pinned)
        missing = {key: array for key, array in arrays.items() if f"sent.{key}" not in self._copies}
        for key, tensor in on_device(missing, device, self._form.pinned).items():
            self._copies[f"sent.{key}"] = tensor
        return {key: self._copies[f"sent.{key}"] for key in arrays}

    @property
    def state(self) -> dict[str, Any]:
        """The state after this batch: what `state_dict()` of its loader gave before the next one.

        For trainers that fetch ahead of what they train. Made when it is asked for, also after the
        loader was closed.
        """
        return self._states.state_dict(self._place)

    @property
    def tokens_so_far(self) -> int:
        """Tokens of the steps that are finished with this batch, over all ranks, since step 0."""
        return self._so_far("tokens")

    @property
    def samples_so_far(self) -> int:
        """The same of documents; one that steps share counts where it begins."""
        return self._so_far("samples")

    @property
    def sequences_so_far(self) -> int:
        """The same of sequences (`bins`), as trainers count what was consumed."""
        return self._so_far("sequences")

    def _so_far(self, name: str) -> int:
        return int(self._place.totals[name])

    step = NativeField[int]("The optimizer step this belongs to.")
    microbatch = NativeField[int]("Its number within the step, from 0.")
    microbatches = NativeField[int]("Microbatches of the step for this rank.")
    last_in_step = NativeField[bool]("Whether the step ends with it.")
    tokens = NativeField[Array | None](
        "Input token ids, [microbatch_size, tokens of this rank's slice]."
    )
    targets = NativeField[Array | None]("The next token of every token: already shifted.")
    loss_weights = NativeField[Array | None](
        "Weight of every target in the loss; 0 for padding and masked tokens."
    )
    positions = NativeField[Array | None](
        "Position of every token in its document, int32; 0 starts a document."
    )
    cu_seqlens = NativeField[Array | None](
        "Cumulative real document lengths of the whole microbatch, int32, n + 1."
    )
    cu_seqlens_padded = NativeField[Array | None](
        "Where documents begin in the padded microbatch, int32, n + 1."
    )
    max_seqlen = NativeField[int]("Longest document of the microbatch.")
    num_docs = NativeField[int]("Documents, or pieces of them, in the microbatch.")
    num_tokens = NativeField[int]("Real tokens of the microbatch, over all its slices.")
    target_tokens = NativeField[int]("Tokens of this microbatch that carry loss.")
    step_target_tokens = NativeField[int](
        "Tokens of the whole step, over all ranks, that carry loss: the loss's normaliser."
    )
    fill = NativeField[float]("Share of the microbatch's places that hold real tokens.")
    nbytes = NativeField[int]("Bytes of this rank's arrays.")

    @property
    def labels(self) -> NoReturn:
        """Refused: models that are given `labels` shift them, and `targets` are shifted already."""
        raise AttributeError(_NO_LABELS)

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
        index: Array | None = self._native.token_index(self._form.slicing)
        return index

    def mrope_positions(self, merge: int = 2, fields: Sequence[str] | None = None) -> Array | None:
        """Positions in three planes (time, height, width) as Qwen2-VL counts them, for this slice.

        int32 [3, *tokens.shape]; 0 starts a document. `fields` are the media whose placeholders
        stand for patches, `merge` x `merge` of them each; None: all whose placeholders fit that.
        None where `token_index` is None.
        """
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
            key = f"{kind}.{name}"
            if data is not None and self._form.writable:
                data = self._copied(key, data, np.copy)
            out[name] = Media(name, data, items, partial(self._tensor, key))
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

    def keys(self) -> list[str]:
        """Names of the arrays this rank has: what `batch[name]` gives, and `**batch` passes on."""
        return list(self.arrays())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.arrays()

    def __getitem__(self, name: str) -> Any:
        """An array by its name; of a batch that was moved to a device, the tensor there."""
        if name not in _ARRAYS:
            known = ", ".join(_ARRAYS)
            raise KeyError(_NO_LABELS if name == "labels" else f"no field {name!r}: {known}")
        array = self._field(name)
        if array is None:
            raise KeyError(f"this rank has no {name!r}, only {', '.join(self.keys()) or 'counts'}")
        return array if self._device is None else self._tensor(name, array)

    def torch(self, device: Any = None) -> dict[str, Any]:
        """The arrays as torch tensors of this batch's own: writing to them changes nothing else.

        On the CPU they lie over the memory of the arrays, without a copy where no other rank of
        this process reads it and it is not pinned for others; a page that is written to is then
        copied by the kernel. With `device` they are copied there, out of pinned memory (`pin=True`)
        without one on the way; the batch is held until that is done.
        """
        arrays = self.arrays()
        device = self._device if device is None else device
        if not is_host(device):
            return self._sent(arrays, device)
        return {name: self._tensor(name, array, "cpu") for name, array in arrays.items()}

    def to(self, device: Any, non_blocking: bool = True) -> Microbatch:
        """The same microbatch with its tensors on a device: of `torch()`, of media, of its inputs.

        Copies begin here; those out of pinned memory (`pin=True`) run beside the host whatever
        `non_blocking` says, which is there for those who move tensors and batches alike. What
        counts, and the arrays by attribute, stay with the host.
        """
        moved = copy(self)
        moved._device = device
        moved._copies = {k: v for k, v in self._copies.items() if not k.startswith("sent.")}
        moved.torch()
        for media in moved.media.values():
            media.torch()
        return moved

    def sent(self) -> list[Any]:
        """The tensors that were copied to the device it was moved to."""
        return [tensor for key, tensor in self._copies.items() if key.startswith("sent.")]

    def model_inputs(self, form: str, **options: Any) -> dict[str, Any]:
        """What a trainer's model is called with: `batch.model_inputs("hf", model=model)`.

        Tensors are on the device that the batch was moved to. Forms and their options:
        docs/trainers/README.md.
        """
        return model_inputs(self, form, options)

    def __repr__(self) -> str:
        fields = ", ".join(
            f"{name}={array.dtype}{list(array.shape)}" for name, array in self.arrays().items()
        )
        place = f"step={self.step}, microbatch={self.microbatch}/{self.microbatches}"
        return f"Microbatch({place}, {fields or 'no fields for this rank'})"

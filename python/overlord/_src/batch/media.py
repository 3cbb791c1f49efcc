"""Media: what one field's pictures or sounds of a microbatch are, as arrays without a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord._src.batch.table_positions import interpolated_positions
from overlord._src.batch.tensors import plain_tensor

Array = npt.NDArray[Any]
_DOCUMENT, _FIRST, _TOKENS, _BEGIN, _ROWS, _GRID = 0, 1, 2, 3, 4, slice(5, 8)


class Media:
    """The items of one media field in one microbatch, in the order of its documents.

    Arrays live as long as they are held, read-only. Ranks that get no tokens have no `data`.
    """

    __slots__ = ("_items", "_tensor", "data", "name")

    def __init__(
        self,
        name: str,
        data: Array | None,
        items: Array,
        tensor: Callable[[Array, Any], Any] = plain_tensor,
    ) -> None:
        self.name = name
        self.data = data
        self._items = items
        self._tensor = tensor

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Array:
        """The rows of one item: its patches or pictures, its frames, chunks or samples."""
        if self.data is None:
            raise ValueError(f"media {self.name}: this rank gets no data, only where it belongs")
        begin = int(self._items[index, _BEGIN])
        rows: Array = self.data[begin : begin + int(self._items[index, _ROWS])]
        return rows

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    @property
    def grid_thw(self) -> Array:
        """int64 [items, 3]: patches in time, height and width; without patches, tiles and sides.

        Of a sound: chunks, frames of each, and frames of all chunks that are no added silence.
        """
        grid: Array = np.ascontiguousarray(self._items[:, _GRID])
        return grid

    @property
    def documents(self) -> Array:
        """int64 [items]: the row of `lineage()` that each belongs to."""
        rows: Array = self._items[:, _DOCUMENT]
        return rows

    @property
    def token_spans(self) -> Array:
        """int64 [items, 2]: first placeholder and the one behind the last.

        Counted in the whole microbatch, its rows laid end to end, before slicing.
        """
        first = self._items[:, _FIRST]
        spans: Array = np.stack([first, first + self._items[:, _TOKENS]], axis=1)
        return spans

    @property
    def row_splits(self) -> Array:
        """int64 [items + 1]: where the rows of each item begin in `data`, and the end."""
        ends = self._items[:, _BEGIN] + self._items[:, _ROWS]
        splits: Array = np.concatenate([np.zeros(1, np.int64), ends])
        return splits

    def interpolated_positions(self, side: int, merge: int = 2) -> tuple[Array, Array]:
        """Where patches stand between the places of a learnt table of side x side positions.

        Indexes into the table, int64 [4, rows], and weights, float32 [4, rows]: a patch's embedding
        is the weighted sum of four, in the order of `data`. As Qwen3-VL spreads its table over a
        picture of any size; `merge` is that of `patchify` (1 for plain ViT layouts).
        """
        return interpolated_positions(self.grid_thw, side, merge)

    def torch(self, device: Any = None) -> Any:
        """`data` as a tensor of this batch's own; see `Microbatch.torch`."""
        return None if self.data is None else self._tensor(self.data, device)

    def __repr__(self) -> str:
        shape = "no data" if self.data is None else f"{self.data.dtype}{list(self.data.shape)}"
        return f"Media({self.name}, {len(self)} items, {shape})"

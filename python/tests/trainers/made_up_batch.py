"""A microbatch that one can write down: what inputs for trainers are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class MadeUpBatch:
    """As the reference of the microbatch says; rows of tokens that nobody cut into slices."""

    tokens: Any
    targets: Any
    loss_weights: Any
    positions: Any
    cu_seqlens: Any
    cu_seqlens_padded: Any
    step_target_tokens: int = 0
    hdp: Any = None
    media: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in (
            ("tokens", np.int32),
            ("targets", np.int32),
            ("loss_weights", np.float32),
            ("positions", np.int32),
            ("cu_seqlens", np.int32),
            ("cu_seqlens_padded", np.int32),
        ):
            value = getattr(self, name)
            setattr(self, name, None if value is None else np.array(value, kind))

    @property
    def token_index(self) -> Any:
        like = self.tokens if self.tokens is not None else self.targets
        return np.arange(like.size).reshape(like.shape)

    def torch(self) -> dict[str, Any]:
        import torch

        names = ("tokens", "targets", "loss_weights", "positions")
        held = {name: getattr(self, name) for name in names}
        return {name: torch.from_numpy(a) for name, a in held.items() if a is not None}


def two_rows(**other: Any) -> MadeUpBatch:
    """Documents 11 12 13 (12 is masked) and 21 22 in a row of 8 aligned to 2, 31..35 in the next.

    Pad token 7. The end of the third document is elsewhere, so that its last target has a weight,
    where `cut` is True.
    """
    cut = other.pop("cut", False)
    return MadeUpBatch(
        **{
            "tokens": [[11, 12, 13, 7, 21, 22, 7, 7], [31, 32, 33, 34, 35, 7, 7, 7]],
            "targets": [
                [12, 13, 7, 7, 22, 7, 7, 7],
                [32, 33, 34, 35, 36 if cut else 7, 7, 7, 7],
            ],
            "loss_weights": [
                [0, 1, 0, 0, 1, 0, 0, 0],
                [1, 1, 1, 1, 1 if cut else 0, 0, 0, 0],
            ],
            "positions": [[0, 1, 2, 0, 0, 1, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0]],
            "cu_seqlens": [0, 3, 5, 10],
            "cu_seqlens_padded": [0, 4, 8, 16],
            "step_target_tokens": 6,
            **other,
        }
    )

"""What a sample costs, per module, in nanoseconds of one GPU.

`time = layers * (linear * tokens + quadratic * sum of squared lengths)`, forward and backward.
Coefficients are fits to layer times measured on one H200 (bf16, variable-length attention); the
constant of a launch is left out, because it belongs to a microbatch and not to a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from overlord import cost
from overlord._src.config.refusals import did_you_mean
from overlord._src.errors import refused
from overlord._src.simulate.columns import Columns, Integers

BACKBONE, ENCODER = "backbone", "encoder"
NS_PER_MS = 1e6
AUDIO_WINDOW_FRAMES = 1500  # audio encoders attend within 30 seconds

# ms per layer of one parameter and one token, and of one squared token and hidden unit: the
# llama-12b row below divided by its shape (hidden 4608, gated feed-forward 12288).
_LINEAR_MS_PER_WEIGHT = 2.57e-3 / (4 * 4608**2 + 3 * 4608 * 12288)
_QUADRATIC_MS_PER_HIDDEN = 9.85e-8 / 4608
_GATED_WIDTH = 8 / 3  # feed-forward width over hidden size, where a shape gives none


@dataclass(frozen=True)
class LayerTimes:
    """A stack of equal layers, with their measured or derived times."""

    name: str
    layers: int
    hidden: int
    linear_ms: float  # per token and layer
    quadratic_ms: float  # per squared token and layer

    def evaluate(self, lengths: npt.NDArray[Any]) -> Integers:
        """Nanoseconds of documents, pictures or windows of these lengths."""
        sizes = np.asarray(lengths, dtype=np.float64)
        milliseconds = self.layers * sizes * (self.linear_ms + self.quadratic_ms * sizes)
        return np.rint(milliseconds * NS_PER_MS).astype(np.int64)


BACKBONES = {
    "llama-12b": LayerTimes("llama-12b", 45, 4608, 2.57e-3, 9.85e-8),
    "mixtral-8x7b": LayerTimes("mixtral-8x7b", 32, 4096, 3.97e-3, 8.76e-8),
    "tmoe-25b": LayerTimes("tmoe-25b", 42, 2048, 7.43e-4, 4.47e-8),
}
ENCODERS = {
    "vit-1b": LayerTimes("vit-1b", 39, 1408, 2.37e-4, 7.60e-8),
    "vit-2b": LayerTimes("vit-2b", 48, 1664, 3.95e-4, 9.38e-8),
}
SHAPE_FORM = "hidden=..,layers=..[,ffn=..]"


@dataclass(frozen=True)
class Model:
    """A backbone, and an encoder where media is encoded."""

    name: str
    backbone: LayerTimes
    encoder: LayerTimes | None = None

    @property
    def modules(self) -> list[str]:
        """Names of what is placed, the backbone first."""
        return [BACKBONE] if self.encoder is None else [BACKBONE, ENCODER]


def parse_model(text: str) -> Model:
    """`llama-12b`, `llama-12b+vit-2b` or `hidden=4096,layers=32[,ffn=14336][+vit-1b]`."""
    first, mark, second = text.partition("+")
    backbone = _shape(first) if "=" in first else BACKBONES.get(first)
    encoder = ENCODERS.get(second) if mark else None
    if backbone is None or (mark and encoder is None):
        known = [*BACKBONES, *ENCODERS]
        wrong = second if backbone is not None else first
        raise refused(
            ("model",),
            f"unknown model {wrong!r}",
            text,
            f"one of {', '.join(BACKBONES)} or {SHAPE_FORM}; "
            f"then, for media, one of {', '.join('+' + name for name in ENCODERS)}",
            did_you_mean(wrong, known),
        )
    return Model(text, backbone, encoder)


def _shape(text: str) -> LayerTimes:
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, size = part.partition("=")
        if name not in ("hidden", "layers", "ffn") or not size.isdigit() or int(size) < 1:
            raise refused(
                ("model",), f"cannot read {part!r}", text, SHAPE_FORM, "sizes are integers"
            )
        sizes[name] = int(size)
    missing = [name for name in ("hidden", "layers") if name not in sizes]
    if missing:
        raise refused(("model",), f"{missing[0]} is missing", text, SHAPE_FORM)
    hidden = sizes["hidden"]
    width = sizes.get("ffn", round(hidden * _GATED_WIDTH))
    weights = 4 * hidden**2 + 3 * hidden * width
    return LayerTimes(
        text,
        sizes["layers"],
        hidden,
        weights * _LINEAR_MS_PER_WEIGHT,
        hidden * _QUADRATIC_MS_PER_HIDDEN,
    )


def times_of(layers: LayerTimes, column: str, lengths: Integers) -> Integers:
    """Nanoseconds by length: the planner's own preset where it has one, else the layer times.

    The package's cost models give `preset(name).evaluate({column: lengths}).cost_ns`.
    """
    preset = _native_preset(layers.name)
    if preset is None:
        return layers.evaluate(lengths)
    found = preset.evaluate({column: np.ascontiguousarray(lengths, dtype=np.int64)}).cost_ns
    return np.asarray(found, dtype=np.int64)


@lru_cache(maxsize=16)
def _native_preset(name: str) -> Any:
    """The planner's cost model of this name; None where it has none."""
    return cost.preset(name) if name in cost.presets() else None


def encoder_cost(layers: LayerTimes, columns: Columns) -> Integers:
    """Nanoseconds of a row's media: pictures, frames and audio windows attend within themselves;
    those of one row count as equally large."""
    windows = -(-columns.audio_frames // AUDIO_WINDOW_FRAMES)
    total = np.zeros(len(columns), dtype=np.int64)
    for count, units in (
        (columns.images, columns.image_patches),
        (columns.video_frames, columns.video_patches),
        (windows, columns.audio_frames),
    ):
        if units.any():
            parts = np.maximum(count, 1)
            total += parts * times_of(layers, "image_patches", units // parts)
    return total


def cost_of(model: Model, columns: Columns) -> dict[str, Integers]:
    """Nanoseconds of each atom, by module. Collation plays no part: costs of atoms add up."""
    found = {BACKBONE: columns.per_atom(times_of(model.backbone, "tokens", columns.tokens))}
    if model.encoder is not None:
        found[ENCODER] = columns.per_atom(encoder_cost(model.encoder, columns))
    return found

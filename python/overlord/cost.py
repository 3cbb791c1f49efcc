"""What a sample costs: named models over metadata columns, presets, or a Python function.

    import overlord as ol
    text = ol.cost.transformer(hidden=4096, layers=32, heads=32, ffn=14336, vocabulary=128256)
    both = ol.cost.sum(text, ol.cost.preset("vit-1b"))
    both.evaluate({"tokens": [512, 90], "image_patches": [0, 1024]}).cost_ns

Costs are whole nanoseconds and bytes. Every native model is reduced to integer coefficients when it
is built (`to_dict` shows them), so that a stored strategy plans the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from overlord._src.cost.model import (
    BYTES_BITS,
    COST_BITS,
    CostModel,
    Costs,
    CostTerm,
    Number,
    add_models,
    model_from_terms,
    quantise,
    refuse,
)
from overlord._src.cost.python_cost import (
    CostError,
    CostFunction,
    PythonCost,
    evaluate_python,
    function_name,
)

__all__ = [
    "CostError",
    "CostModel",
    "CostTerm",
    "Costs",
    "PythonCost",
    "evaluate_python",
    "from_dict",
    "preset",
    "presets",
    "python",
    "quadratic",
    "sum",
    "tokens",
    "transformer",
    "vit",
]


def tokens(column: str = "tokens") -> CostModel:
    """One nanosecond and one byte per token: balances counts, and memory limits are in tokens."""
    return replace(quadratic(0, 1, column=column), kind="tokens")


def quadratic(
    a: Number,
    b: Number,
    g: Number = 0,
    *,
    column: str = "tokens",
    bin: Number = 0,
    bytes_per_token: Number = 1,
) -> CostModel:
    """`a * s^2 + b * s + g` nanoseconds for a sample of length s, and `bin` for every bin."""
    term = CostTerm(
        column,
        constant_q32=quantise(g, COST_BITS, "g"),
        linear_q32=quantise(b, COST_BITS, "b"),
        quadratic_q32=quantise(a, COST_BITS, "a"),
        linear_bytes_q16=quantise(bytes_per_token, BYTES_BITS, "bytes_per_token"),
    )
    return CostModel("quadratic", (term,), quantise(bin, COST_BITS, "bin"))


def transformer(
    *,
    hidden: int,
    layers: int,
    heads: int,
    ffn: int,
    kv_heads: int = 0,
    gated: bool = True,
    causal: bool = True,
    vocabulary: int = 0,
    experts: int = 1,
    experts_active: int = 1,
    tp: int = 1,
    pp: int = 1,
    flops_per_second: int | None = None,
    attention_flops_per_second: int | None = None,
    column: str = "tokens",
) -> CostModel:
    """Forward and backward of a transformer, from its shape, on one rank of its costliest stage.

    Operations become time by two declared speeds (default: what an H200 reached in bf16), bytes are
    the activations that a plain bf16 training step keeps. `kv_heads=0` is as many as `heads`; `ffn`
    is the width of one expert; `pp` takes ceil(layers / pp) layers and the output head.
    """
    from overlord._src.native import core

    shape: dict[str, Any] = {
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "kv_heads": kv_heads,
        "ffn": ffn,
        "gated": gated,
        "causal": causal,
        "vocabulary": vocabulary,
        "experts": experts,
        "experts_active": experts_active,
        "tp": tp,
        "pp": pp,
        "column": column,
    }
    return model_from_terms(
        core.cost_transformer(_with_speeds(shape, flops_per_second, attention_flops_per_second))
    )


def vit(
    *,
    hidden: int,
    layers: int,
    ffn: int,
    heads: int = 1,
    patches: int | None = None,
    tp: int = 1,
    flops_per_second: int | None = None,
    attention_flops_per_second: int | None = None,
    column: str = "image_patches",
) -> CostModel:
    """Forward and backward of a vision transformer, from its shape.

    Without `patches` the column holds the patches of one image, and attention is quadratic in it.
    With it every image has so many, a sample may have several, and each attends to itself alone.
    """
    from overlord._src.native import core

    if patches is not None and (type(patches) is not int or patches < 1):
        raise refuse("wrong number", patches, "1 or more patches per image", ("cost", "patches"))
    shape: dict[str, Any] = {
        "hidden": hidden,
        "layers": layers,
        "heads": heads,
        "ffn": ffn,
        "tp": tp,
        "patches": patches or 0,
        "column": column,
    }
    return model_from_terms(
        core.cost_vit(_with_speeds(shape, flops_per_second, attention_flops_per_second))
    )


def sum(*models: CostModel) -> CostModel:
    """The models together: an encoder over its patches and a backbone over its tokens."""
    for model in models:
        if not isinstance(model, CostModel):
            raise refuse("not a native cost model", model, "what tokens, transformer, ... give")
    return add_models(models)


def preset(name: str, *, layers: int | None = None, tp: int = 1, pp: int = 1) -> CostModel:
    """A named model with coefficients measured on an H200; `presets()` lists them.

    `layers` takes so many of its layers; `tp` splits each, `pp` the stack (rounded up). What every
    layer takes before its first token is not split.
    """
    from overlord._src.native import core

    return model_from_terms(core.cost_preset(name, layers or 0, tp, pp))


def presets() -> dict[str, dict[str, Any]]:
    """The presets by name: shape, coefficients of a layer in nanoseconds, and the error of the fit.

    `errors` are relative errors of held-out rows: median, 90th percentile and largest.
    """
    from overlord._src.native import core

    return {row.pop("name"): row for row in core.cost_presets()}


def python(
    function: CostFunction, *, version: int | str, name: str | None = None, scale: int = 1
) -> PythonCost:
    """A cost function of your own: a dict of NumPy columns in, one number per row out.

    Called once per window. It answers nanoseconds, or other units times `scale`, or a mapping with
    `cost` and `bytes`. Raise `version` when it changes: name and version stand for it in the
    config's digest.
    """
    return PythonCost(function, version, name or function_name(function), scale)


def from_dict(
    data: str | Mapping[str, Any], functions: Mapping[str, CostFunction] | None = None
) -> CostModel | PythonCost:
    """The model that plain data describes.

    `to_dict()` of a model gives it back exactly. Also accepted is a builder by its name with its
    arguments: `"tokens"`, `{"kind": "preset", "name": "vit-1b"}`, `{"kind": "transformer", ...}`,
    `{"kind": "sum", "parts": [...]}`. A Python cost is found in `functions` by its name.
    """
    if isinstance(data, str):
        data = {"kind": data}
    if not isinstance(data, Mapping):
        raise refuse("not a cost model", data, "a name, or a mapping with `kind`")
    if "terms" in data:
        return model_from_terms(data)
    arguments = {str(key): value for key, value in data.items() if key != "kind"}
    kind = data.get("kind")
    if kind == "python":
        return _python_from_dict(arguments, functions or {})
    if kind == "sum":
        parts = arguments.get("parts")
        if set(arguments) != {"parts"} or not isinstance(parts, list):
            raise refuse("wrong keys for a sum", sorted(arguments), "parts: a list of cost models")
        return sum(*(_native(from_dict(part, functions)) for part in parts))
    builders = {"tokens": tokens, "quadratic": quadratic, "transformer": transformer, "vit": vit}
    builder = builders.get(str(kind)) or (preset if kind == "preset" else None)
    if builder is None:
        allowed = ", ".join((*builders, "preset", "sum", "python"))
        raise refuse("unknown kind", kind, allowed, ("cost", "kind"))
    try:
        made: CostModel = builder(**arguments)  # type: ignore[operator]
    except TypeError as error:
        raise refuse(f"wrong arguments: {error}", arguments, f"those of cost.{kind}") from None
    return made


def _native(model: CostModel | PythonCost) -> CostModel:
    if isinstance(model, PythonCost):
        raise refuse("a Python cost cannot be a part of a sum", model.name, "native cost models")
    return model


def _python_from_dict(data: dict[str, Any], functions: Mapping[str, CostFunction]) -> PythonCost:
    strange = sorted(set(data) - {"name", "version", "scale"})
    if strange or not {"name", "version"} <= set(data):
        raise refuse("wrong keys for a Python cost", sorted(data), "name, version, scale")
    if data["name"] not in functions:
        known = ", ".join(functions) or "none; register it where the strategy is loaded"
        raise refuse("a Python cost that is not registered", data["name"], known)
    return PythonCost(functions[data["name"]], data["version"], data["name"], data.get("scale", 1))


def _with_speeds(
    shape: dict[str, Any], matrix: int | None, attention: int | None
) -> dict[str, Any]:
    speeds = {"flops_per_second": matrix, "attention_flops_per_second": attention}
    given = {name: speed for name, speed in speeds.items() if speed is not None}
    for name, speed in given.items():
        if isinstance(speed, bool) or not speed == int(speed):
            raise refuse("not a whole number", speed, "operations per second", ("cost", name))
    return shape | {name: int(speed) for name, speed in given.items()}

"""model_inputs: what a model of some trainer is called with, by the trainer's name.

Each form is a module of overlord/_src/trainers/inputs with one function `inputs(batch, **options)`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from overlord._src.config.refusals import unknown_name

FORMS = (
    "hf",
    "megatron",
    "torchtitan",
    "deepspeed",
    "verl",
    "automodel",
    "maxtext",
    "qwen_vl",
    "qwen_audio",
)
_HOME = "overlord._src.trainers.inputs"


def model_inputs(batch: Any, form: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in the form of a trainer, whose module is imported by the first that asks."""
    if form not in FORMS:
        raise unknown_name(("model_inputs",), "no such form", form, FORMS)
    inputs: dict[str, Any] = importlib.import_module(f"{_HOME}.{form}").inputs(batch, **options)
    return inputs

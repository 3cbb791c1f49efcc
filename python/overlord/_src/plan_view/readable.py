"""Tokens and plans in a form that people read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from overlord._src.config.checks import BYTES
from overlord._src.config.columns import base_name
from overlord._src.config.reading import LoadedConfig
from overlord._src.job.open_stream import OpenStream
from overlord._src.lowering.job_spec import absolute_uri
from overlord._src.plan_view.explain import PlannedStep

Decoder = Callable[[Sequence[int]], str]
FIELD_NAMES = (
    (1, "tokens"),
    (2, "targets"),
    (4, "loss_weights"),
    (8, "positions"),
    (16, "boundaries"),
)


def make_decoder(loaded: LoadedConfig, source: str) -> Decoder | None:
    """Tokens of a source back to text; None for sources of ready tokens."""
    name = loaded.config.sources[base_name(source)].tokenizer
    if name is None:
        return None
    declared = loaded.config.tokenizers.get(name)
    if declared is None or declared.kind == BYTES:
        return lambda tokens: bytes(token & 0xFF for token in tokens).decode(errors="replace")
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(absolute_uri(loaded.base, declared.path or ""))
    return lambda tokens: str(tokenizer.decode(list(tokens), skip_special_tokens=False))


def shorten(text: str, limit: int = 96) -> str:
    """One line of a text, its beginning."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def show_tokens(tokens: Sequence[int], decoder: Decoder | None, limit: int = 96) -> str:
    """Tokens as text where a decoder exists, else as numbers."""
    if decoder is not None:
        return shorten(decoder(tokens[: limit * 2]), limit)
    return shorten(" ".join(str(int(token)) for token in tokens[:limit]), limit)


def show_loss(
    tokens: Sequence[int], mask: Sequence[int], decoder: Decoder, limit: int = 4000
) -> str:
    """Tokens as text, what carries loss in ⟦brackets⟧; the beginning where it is long."""
    text, at = "", 0
    for carries, run in itertools.groupby(mask):
        end = at + len(list(run))
        piece = decoder(tokens[at:end])
        text += f"⟦{piece}⟧" if carries else piece
        at = end
        if len(text) > limit:
            return text[:limit] + "..."
    return text


def field_names(fields: int) -> list[str]:
    """Names of the fields in a view's bit set."""
    return [name for bit, name in FIELD_NAMES if fields & bit]


def plan_of(opened: OpenStream, step: int) -> tuple[Any, bytes | None]:
    """The plan of a step, and the state before it (None: the start)."""
    cursor = opened.cursor()
    before = None
    if step > 0:
        cursor.seek(step)
        before = cursor.state()
    plan = cursor.next()
    if plan is None:
        raise IndexError(f"step {step} is past the end of the stream")
    return plan, before


def planned_step(opened: OpenStream, step: int) -> PlannedStep:
    """The plan of a step with its report and the graph behind it."""
    cursor = opened.cursor()
    if step > 0:
        cursor.seek(step)
    plan = cursor.next()
    if plan is None:
        raise IndexError(f"step {step} is past the end of the stream")
    return PlannedStep.read(cursor, plan, opened.source_names)


def plan_data(opened: OpenStream, step: PlannedStep, rank: int | None = None) -> dict[str, Any]:
    """A plan as plain data; with a rank, only what that rank sees."""
    plan, names = step.plan, opened.source_names
    weights = step.cursor.weights()
    bins, placement, views = plan.bins(), plan.placement(), plan.views()
    wanted = None if rank is None else views[rank]["bucket"]
    resolved = opened.resolved
    unit = resolved.mixture.unit
    data: dict[str, Any] = {
        "step": plan.step,
        "last": plan.last,
        "tokens": plan.tokens,
        "target_tokens": plan.target_tokens,
        "capacity": plan.capacity,
        "fill": plan.tokens / plan.capacity,
        "max_delay": plan.max_delay,
        "carried": plan.carried,
        "microbatches": plan.microbatches,
        "content_hash": plan.content_hash,
        "plan_hash": plan.plan_hash,
        "unit": unit,
        "mixture": {
            name: {
                "asked": plan.asked[index],
                "served": plan.served[index],
                "weight": weights[index] / (sum(weights) or 1),
            }
            for index, name in enumerate(names)
        },
        "bins": [
            {
                "bin": number,
                "bucket": place[0],
                "microbatch": place[1],
                "slot": place[2],
                "segments": [segment_data(names, segment) for segment in segments],
            }
            for number, (segments, place) in enumerate(zip(bins, placement, strict=True))
            if wanted is None or place[0] == wanted
        ],
    }
    if plan.hdp() is not None:
        data["groups"] = group_data(plan.hdp())
    if rank is not None:
        data["rank"] = rank
        data["view"] = {**views[rank], "fields": field_names(views[rank]["fields"])}
    return data


def group_data(groups: dict[str, Any]) -> list[dict[str, Any]]:
    """Groups of hybrid data parallelism as plain data, in the order that all ranks keep."""
    ranks = np.split(groups["ranks"], groups["rank_ends"][:-1])
    sequences = np.split(groups["sequences"], groups["sequence_ends"][:-1])
    single = {
        "substep": "substeps",
        "round": "microbatches",
        "offload_permille": "offload_permille",
        "tokens": "tokens",
        "targets": "group_targets",
        "cost_ns": "cost_ns",
        "start_ns": "start_ns",
    }
    return [
        {
            "consumers": ranks[at].tolist(),
            "sequences": sequences[at].tolist(),
            **{name: int(groups[key][at]) for name, key in single.items()},
        }
        for at in range(len(ranks))
    ]


def segment_data(names: Sequence[str], segment: Sequence[int]) -> dict[str, Any]:
    """One segment of a plan as plain data."""
    source, number, position, first, count, targets, flags = segment
    return {
        "source": names[source],
        "pass": number,
        "position": position,
        "first": first,
        "count": count,
        "targets": targets,
        "continues": bool(flags & 1),
    }


def encoder_data(encoder: dict[str, Any], sources: Sequence[str]) -> dict[str, Any]:
    """The encoder's layer of a plan as plain data."""
    columns = {name: values.tolist() for name, values in encoder["columns"].items()}
    samples = [
        {
            "source": sources[columns["source"][i]],
            "pass": columns["pass"][i],
            "position": columns["position"][i],
            "units": columns["count"][i],
            "encoder": columns["bucket"][i],
            "microbatch": columns["microbatch"][i],
            "group": int(encoder["backbone_of"][i]),
        }
        for i in range(len(columns["bin"]))
    ]
    pairs = ("pair_encoder", "pair_backbone", "pair_bytes")
    return {
        "module": encoder["module"],
        "axis": encoder["axis"],
        "ranks": encoder["group"].tolist(),
        "samples": samples,
        "dummies": [{"encoder": one, "microbatch": other} for one, other in encoder["dummies"]],
        "exchanges": [
            {
                "permutation": item["permutation"].tolist(),
                "inverse": item["inverse"].tolist(),
                "bytes": list(zip(*(item[name].tolist() for name in pairs), strict=True)),
            }
            for item in encoder["exchanges"]
        ],
        "report": encoder["report"],
    }

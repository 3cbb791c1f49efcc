"""Folders and metadatasets of Megatron-Energon: what their YAML says, as sources and weights.

A folder is tars with a division of them in `.nv-meta`. A metadataset names folders with weights:
a source over one becomes a source for each folder, and a group of them wherever it has a weight.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overlord._src.config import yaml_text
from overlord._src.errors import ConfigError, KeyPath, refused

ENERGON = "energon"
_META = ".nv-meta"
_SPLITS = ("split.yaml", "split.json")
_TRAIN = "train"
_MOST_BYTES = 256 << 20
_MOST_NESTED = 16  # metadatasets inside each other; more is a circle
_SUFFIXES = (".yaml", ".yml")
_CLASSES = ("MetadatasetV2", "Metadataset")
_BLENDS = ("blend", "datasets")  # of MetadatasetV2, of Metadataset
# Of a dataset that is referred to: what counts, what says nothing of the data, and their defaults.
_READ = ("path", "weight", "split_part")
_TAGS = ("subflavor", "subflavors", "dataset_config")
_USUAL: Mapping[str, Any] = {"shuffle_over_epochs_multiplier": 1, "split_config": _SPLITS[0]}


def is_metadataset(source: Any) -> bool:
    """Whether a source, as it is written, is over the YAML of a metadataset."""
    if not isinstance(source, Mapping) or source.get("format") != ENERGON:
        return False
    files = source.get("files")
    listed = [files] if isinstance(files, str | os.PathLike) else files
    return isinstance(listed, list | tuple) and any(
        isinstance(file, str | os.PathLike) and os.fspath(file).endswith(_SUFFIXES)
        for file in listed
    )


def expand_metadatasets(data: dict[str, Any], base: Path) -> dict[str, Any]:
    """A config whose sources over metadatasets are the sources that these name."""
    sources = data.get("sources")
    if not isinstance(sources, Mapping) or not any(map(is_metadataset, sources.values())):
        return data
    expanded: dict[str, Any] = {}
    groups: dict[str, dict[str, float]] = {}
    for name, source in sources.items():
        if not is_metadataset(source):
            expanded[name] = source
            continue
        members = _members(name, source, base)
        groups[name] = {member: leaf.weight for member, leaf in members.items()}
        for member, leaf in members.items():
            if member in sources or member in expanded:
                path = ("sources", name, "files")
                raise refused(path, f"its dataset {leaf.path} is named {member}, as a source is")
            expanded[member] = {**source, "files": leaf.path, "split_part": leaf.part}
    return _with_groups({**data, "sources": expanded}, groups)


def part_of_folder(folder: str, part: str) -> list[str]:
    """The tars of a part of a folder, as its split lists them."""
    told = _split_of(folder)
    parts = told.get("split_parts")
    if not isinstance(parts, Mapping) or not all(isinstance(one, list) for one in parts.values()):
        raise refused((), f"{folder}{_META} divides no tars: it has no `split_parts`")
    if part not in parts:
        raise refused(
            ("split_part",),
            f"{folder} has no such part",
            part,
            ", ".join(map(str, parts)) or "none",
        )
    excluded = set(_names(folder, told.get("exclude") or []))
    samples = sorted(name for name in excluded if not name.endswith(".tar"))
    if samples:
        raise refused(
            (),
            f"{folder}{_META} leaves out single samples ({samples[0]}), which is not done here",
            advice="write the tar without them",
        )
    tars = [name for name in _names(folder, parts[part]) if name not in excluded]
    if not tars:
        raise refused(("split_part",), f"this part of {folder} has no tars", part)
    return [folder + name for name in tars]


def _split_of(folder: str) -> Mapping[str, Any]:
    for name in _SPLITS:
        told = _read(f"{folder}{_META}/{name}", missing_ok=True)
        if told is not None:
            return told
    raise refused(
        (),
        f"{folder} has no {_META}/{_SPLITS[0]}; it is no folder that `energon prepare` made",
        advice="name the folder that has it, or its tars with `format: webdataset`",
    )


def _names(folder: str, listed: Any) -> list[str]:
    from overlord._src.native import core

    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise refused((), f"{folder}{_META} lists something else than names of tars", listed)
    names = [name for pattern in listed for name in core.expand_braces(pattern)]
    for name in names:
        if name.startswith("/") or "://" in name or ".." in name.split("/"):
            raise refused((), f"{folder}{_META} lists a tar outside of the folder", name)
    return names


@dataclass(frozen=True)
class _Leaf:
    """A folder that a metadataset refers to."""

    path: str
    part: str
    weight: float


def _members(name: str, source: Mapping[str, Any], base: Path) -> dict[str, _Leaf]:
    """The sources that stand for one over a metadataset, by the names they get."""
    path: KeyPath = ("sources", name)
    files = source["files"]
    listed = [files] if isinstance(files, str | os.PathLike) else list(files)
    if len(listed) != 1:
        advice = "make a source for each"
        raise refused((*path, "files"), "a metadataset stands alone", files, advice=advice)
    part = source.get("split_part") or _TRAIN
    uri = os.fspath(listed[0])
    if "://" not in uri and not os.path.isabs(uri):
        uri = str(base / uri)
    try:
        leaves = list(_leaves(uri, part, 1.0, 0))
    except ConfigError as error:
        raise ConfigError([problem.under(*path, "files") for problem in error.problems]) from None
    members: dict[str, _Leaf] = {}
    for leaf in leaves:
        label = re.sub(r"[^A-Za-z0-9_-]+", "-", leaf.path.rstrip("/").rsplit("/", 1)[-1])
        wanted = f"{name}-{label}" + ("" if leaf.part == part else f"-{leaf.part}")
        member, again = wanted, 2
        while member in members:
            member, again = f"{wanted}-{again}", again + 1
        members[member] = leaf
    return members


def _leaves(uri: str, part: str, weight: float, depth: int) -> Iterator[_Leaf]:
    """The folders of a part of a metadataset, whose weights add up to `weight`."""
    if depth > _MOST_NESTED:
        raise refused((), f"{uri}: metadatasets lie more than {_MOST_NESTED} deep in each other")
    told = _read(uri)
    assert told is not None
    kind = told.get("__class__", _CLASSES[1])
    splits = told.get("splits")
    if kind not in _CLASSES or not isinstance(splits, Mapping):
        raise refused(
            (), f"{uri} is no metadataset", kind, f"`__class__: {_CLASSES[0]}` with `splits`"
        )
    if not isinstance(splits.get(part), Mapping):
        raise refused((), f"{uri} has no part {part}", allowed=", ".join(map(str, splits)))
    inside = splits[part]
    blend = next((key for key in _BLENDS if key in inside), None)
    references = inside[blend] if blend else [inside]
    unknown = sorted(set(inside) - {blend}) if blend else []
    for key in ("blend_epochized", "join", "subset", "aux"):
        if key in inside:
            unknown = [key]
    if unknown:
        raise _not_fitting(uri, part, unknown[0])
    if not isinstance(references, list) or not references:
        raise refused((), f"{uri}: `{blend}` of part {part} lists no datasets", references)
    weights = [_weight_of(uri, part, reference) for reference in references]
    if sum(weights) <= 0:
        raise refused((), f"{uri}: no dataset of part {part} has a weight")
    for reference, own in zip(references, weights, strict=True):
        share = weight * own / sum(weights)
        yield from _referred(uri, part, reference, share, depth)


def _referred(
    uri: str, part: str, reference: Mapping[str, Any], weight: float, depth: int
) -> Iterator[_Leaf]:
    for key, value in reference.items():
        if key in _READ or key in _TAGS or (key in _USUAL and value in (None, _USUAL[key])):
            continue
        raise _not_fitting(uri, part, key)
    path = reference.get("path")
    if not isinstance(path, str) or not path:
        raise refused((), f"{uri}: a dataset of part {part} has no path", path)
    target = _beside(uri, path)
    own_part = reference.get("split_part") or part
    if target.endswith(_SUFFIXES):
        yield from _leaves(target, own_part, weight, depth + 1)
    elif target.endswith((".jsonl", ".json")):
        raise refused(
            (), f"{uri}: {path} is JSON lines", advice="declare it as a source of its own"
        )
    else:
        yield _Leaf(target.rstrip("/") + "/", own_part, weight)


def _weight_of(uri: str, part: str, reference: Any) -> float:
    if not isinstance(reference, Mapping):
        raise refused((), f"{uri}: part {part} lists no datasets", reference)
    weight = reference.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 1e18:
        raise refused((), f"{uri}: a dataset of part {part} has no weight", weight, "a number >= 0")
    return float(weight)


_INSTEAD = {
    "blend_epochized": "use `blend` with weights, and `mixture.max_passes` for repetitions",
    "join": "write the joined samples into one dataset",
    "subset": "divide the source by rows with `split`",
    "aux": "keep media in the tars of their samples",
    "shuffle_over_epochs_multiplier": "passes are shuffled by themselves (`shuffle`)",
    "split_config": "name the folder's `split.yaml`",
}


def _not_fitting(uri: str, part: str, key: str) -> ConfigError:
    return refused(
        (),
        f"{uri}: `{key}` in part {part} says something that no config of ours can say",
        advice=_INSTEAD.get(key, "remove it"),
    )


def _beside(uri: str, path: str) -> str:
    """A path as the file that has it means it."""
    if "://" in path or os.path.isabs(path):
        return path
    scheme, mark, place = uri.rpartition("://")
    return scheme + mark + posixpath.normpath(posixpath.join(posixpath.dirname(place), path))


def _read(uri: str, missing_ok: bool = False) -> Mapping[str, Any] | None:
    """A mapping out of a file of YAML or JSON, on a disk or in a store."""
    from overlord._src.native import core

    try:
        data = core.read_file(uri, _MOST_BYTES)
    except core.NotFoundError:
        if missing_ok:
            return None
        raise refused((), f"{uri} is not there") from None
    except core.InvalidArgumentError as error:
        raise refused((), str(error)) from None
    try:
        if uri.endswith(".json"):
            told = json.loads(data)
        else:
            told = yaml_text.parse(yaml_text.decode_text(data)).data
    except (ConfigError, ValueError, RecursionError) as error:
        raise refused((), f"{uri} cannot be read: {error}") from None
    if not isinstance(told, Mapping):
        raise refused((), f"{uri} is no mapping of keys")
    return told


def _with_groups(data: dict[str, Any], groups: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Every mixture of a config with groups in the place of their names."""
    out = dict(data)
    if isinstance(data.get("mixture"), Mapping):
        out["mixture"] = _mixture(data["mixture"], groups, ("mixture",))
    streams = data.get("streams")
    if isinstance(streams, Mapping):
        out["streams"] = {
            name: {**stream, "mixture": _mixture(stream["mixture"], groups, ("streams", name))}
            if isinstance(stream, Mapping) and isinstance(stream.get("mixture"), Mapping)
            else stream
            for name, stream in streams.items()
        }
    return out


def _mixture(
    mixture: Mapping[str, Any], groups: Mapping[str, Mapping[str, float]], path: KeyPath
) -> dict[str, Any]:
    changed = _grouped(mixture, groups)
    if changed != mixture and mixture.get("unit") != "samples":
        raise refused(
            (*path, "unit"),
            "the weights of a metadataset count samples",
            mixture.get("unit", "tokens"),
            "samples",
            "set it, or name the folders as sources with weights of your own",
        )
    return dict(changed)


def _grouped(value: Any, groups: Mapping[str, Mapping[str, float]]) -> Any:
    """Weights, wherever they stand, with groups in the place of their names."""
    if isinstance(value, list):
        return [_grouped(one, groups) for one in value]
    if not isinstance(value, Mapping):
        return value
    out: dict[str, Any] = {}
    for key, inside in value.items():
        if key == "max_passes":
            out[key] = _ungrouped(inside, groups)
            continue
        is_weight = isinstance(inside, int | float) and not isinstance(inside, bool)
        if key in groups and is_weight:
            out[key] = {"weight": inside, "of": dict(groups[key])}
        elif key in groups and isinstance(inside, Mapping):
            raise refused(
                ("mixture",), f"{key} is a metadataset and has weights of its own", inside
            )
        else:
            out[key] = _grouped(inside, groups)
    return out


def _ungrouped(passes: Any, groups: Mapping[str, Mapping[str, float]]) -> Any:
    for name in passes if isinstance(passes, Mapping) else ():
        if name in groups:
            raise refused(
                ("mixture", "max_passes", name),
                "is a metadataset: passes are counted of its datasets",
                passes[name],
                ", ".join(groups[name]),
            )
    return passes

"""Config keys that count for a stream, kept with its state: a refusal can name what differs.

Digests decide whether a state fits; they cannot say which key they differ by. Small on purpose: a
state of hundreds of sources keeps hashes, or nothing, in place of values that would not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from overlord._src.config.bins import show_bins
from overlord._src.config.columns import base_name
from overlord._src.config.job_config import JobConfig
from overlord._src.config.streams import ResolvedStream
from overlord._src.errors import show_path, show_value
from overlord._src.native import core

FIELD = "keys"
_MOST_BYTES = 2048  # as JSON
_LONGEST = 100  # of one value; beyond it a hash
_UNCOUNTED = {
    *("files", "loaders", "workers", "bad_rows_allowed", "allow_duplicates", "decode_at"),
    *("shadows", "shadow", "most_loaders"),
}
_DEFAULT = "its default"
Values = dict[str, Any]  # by dotted key; defaults are left out


@dataclass(frozen=True)
class StreamKeys:
    """What `state_dict()` keeps of a config, and the sources it is about, in their order."""

    told: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()

    def added_to(self, state: dict[str, Any]) -> dict[str, Any]:
        """A state with the keys."""
        return {**state, FIELD: dict(self.told)} if self.told else state


def keys_of(config: JobConfig, stream: ResolvedStream) -> StreamKeys:
    """The keys of a stream."""
    names = stream.mixture.source_names()
    return StreamKeys(_told(config, stream, names), names)


def _told(config: JobConfig, stream: ResolvedStream, names: Sequence[str]) -> dict[str, Any]:
    values = _stream_values(config, stream)
    mixture = _dumped(stream.mixture, {"feedback": {"reporters"}})
    whole = {**values, **_flat({"mixture": mixture})}
    short = {**values, **{f"mixture.{key}": _hashed(value) for key, value in mixture.items()}}
    sources = [_source_values(config, stream, name) for name in names]
    for told in ((whole, sources), (short, sources), (short, None), (_fewest(short), None)):
        out = {"values": told[0], **({} if told[1] is None else {"sources": _packed(told[1])})}
        if len(json.dumps(out)) <= _MOST_BYTES - 30:
            return {**out, "hash": _hashed(out)}
    return {}


def key_differences(saved: StreamKeys, now: StreamKeys) -> list[str]:
    """Keys that had other values when the state was saved, with both."""
    if not saved.told or not now.told:
        return []
    found = _differences(saved.told["values"], now.told["values"], "")
    before, after = (
        dict(zip(keys.names, _unpacked(keys.told.get("sources", [])), strict=False))
        for keys in (saved, now)
    )
    for name in before:
        if name in after:
            found += _differences(before[name], after[name], f"sources.{base_name(name)}.")
    return list(dict.fromkeys(found))


def edited_keys(state: Mapping[str, Any]) -> list[str]:
    """Says so where the keys of a state are not those that were kept."""
    edited = is_edited(state.get(FIELD, {}))
    return [f"{FIELD}: not what was saved; use the dict it was, whole"] if edited else []


def is_edited(saved: Any) -> bool:
    """Whether what a state says of its keys is not what was kept."""
    if not isinstance(saved, Mapping):
        return True
    rest = {key: value for key, value in saved.items() if key != "hash"}
    return bool(saved) and saved.get("hash") != _hashed(rest)


@contextlib.contextmanager
def naming_keys(state: Any, now: StreamKeys, allow: Sequence[str]) -> Iterator[None]:
    """Adds to a refusal of the state the keys that differ, where the state knows them."""
    saved = state.get(FIELD, {}) if isinstance(state, Mapping) else {}
    try:
        yield
    except core.StateMismatchError as error:
        if is_edited(saved):
            raise
        names = sorted(state.get("sources", ())) if isinstance(state, Mapping) else []
        found = [
            item
            for item in key_differences(StreamKeys(saved, names), now)
            if not (allow and item.startswith("mixture."))
        ]
        if not found:
            raise
        lines = "".join(f"\n  {item}" for item in found)
        raise core.StateMismatchError(f"{error}\nConfig keys that differ:{lines}") from None


def _stream_values(config: JobConfig, stream: ResolvedStream) -> Values:
    fixed = ("seed", "context", "substeps", "align", "leftover")
    values = {show_path(stream.path_of(key)): getattr(stream, key) for key in fixed}
    values[show_path(stream.path_of("bins"))] = (
        stream.bins if len(stream.bins_by_step) == 1 else show_bins(stream.bins_by_step)
    )
    values |= {"vocabulary": config.vocabulary, "pad_token": config.pad_token}
    packing = show_path(stream.path_of("packing"))
    values |= _flat({packing: _dumped(stream.packing), "window": _dumped(config.window)})
    used = {config.sources[base_name(name)].tokenizer for name in stream.mixture.source_names()}
    tokenizers = {name: _dumped(item) for name, item in config.tokenizers.items() if name in used}
    values |= _flat({"tokenizers": tokenizers})
    if config.batch_transform is not None:
        values["batch_transform.function"] = config.batch_transform.function
    return values


def _source_values(config: JobConfig, stream: ResolvedStream, name: str) -> Values:
    source = config.sources[base_name(name)]
    values = _flat(_dumped(source, _UNCOUNTED))
    values |= {"at_end": stream.at_end[name], "over_length": stream.over_length[name]}
    return values


def _dumped(model: Any, exclude: Any = None) -> dict[str, Any]:
    out: dict[str, Any] = model.model_dump(mode="json", exclude_defaults=True, exclude=exclude)
    return out


def _flat(values: Mapping[str, Any], prefix: str = "") -> Values:
    out: Values = {}
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out |= _flat(value, f"{path}.")
        else:
            out[path] = value if len(json.dumps(value)) <= _LONGEST else _hashed(value)
    return out


def _fewest(values: Values) -> Values:
    """Only numbers: what is left where names and texts are too many."""
    return {key: value for key, value in values.items() if isinstance(value, int | float)}


def _hashed(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return "#" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def _packed(sources: list[Values]) -> list[Any]:
    """Runs of sources that have the same values: [how many, values]."""
    return [[len([*run]), values] for values, run in itertools.groupby(sources)]


def _unpacked(packed: list[Any]) -> list[Values]:
    return [values for count, values in packed for _ in range(count)]


def _differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str) -> list[str]:
    found = []
    for key in dict.fromkeys((*before, *after)):
        was, now = before.get(key), after.get(key)
        if was == now or _covered(key, before, after):
            continue
        hidden = any(isinstance(value, str) and value.startswith("#") for value in (was, now))
        values = "another value" if hidden else f"saved {_shown(was)}, now {_shown(now)}"
        found.append(f"{prefix}{key}: {values}")
    return found


def _covered(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether one side has a hash where the other has the keys below it: nothing to compare."""
    parts = key.split(".")
    above = [".".join(parts[:end]) for end in range(1, len(parts))]
    below = any(other.startswith(f"{key}.") for other in (*before, *after))
    return below or any(other in before or other in after for other in above)


def _shown(value: Any) -> str:
    return _DEFAULT if value is None else show_value(value)

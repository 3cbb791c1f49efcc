"""A state that does not fit names the config keys that differ, on both engines, and stays small."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from overlord._src.config.reading import read_config
from overlord._src.config.streams import resolve_stream
from overlord._src.node.process import Attachment
from overlord._src.state.keys import FIELD, key_differences, keys_of

import overlord as ol


def keys(config: dict[str, Any], stream: str = "train") -> Any:
    loaded = read_config(config).config
    return keys_of(loaded, resolve_stream(loaded, stream))


def changed(config: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    out = copy.deepcopy(config)
    here = out
    *parents, last = key.split(".")
    for part in parents:
        here = here.setdefault(part, {})
    here[last] = value
    return out


CHANGES = [
    ("seed", 8, "seed: saved 7, now 8"),
    ("context", 128, "context: saved 64, now 128"),
    ("packing.slack", 0.1, "packing.slack: saved its default, now 0.1"),
    ("window.steps", 2, "window.steps: saved its default, now 2"),
    ("vocabulary", 31_999, "vocabulary: saved 32000, now 31999"),
    ("mixture.weights.web", 0.25, "mixture.weights.web: saved 0.6, now 0.25"),
    ("mixture.quota", "multinomial", "mixture.quota: saved its default, now 'multinomial'"),
    ("sources.web.eod", 3, "sources.web.eod: saved its default, now 3"),
    ("sources.web.shuffle", "full", "sources.web.shuffle: saved its default, now 'full'"),
    ("sources.code.at_end", "drop", "sources.code.at_end: saved 'repeat', now 'drop'"),
    ("tokenizers.bpe.path", "b.json", "tokenizers.bpe.path: saved 'tok.json', now 'b.json'"),
    ("sources.web.limits.max_block", 2**20, "sources.web.limits.max_block: saved its default"),
]


@pytest.mark.parametrize(("key", "value", "line"), CHANGES)
def test_what_differs_is_named_with_both_values(
    key: str, value: Any, line: str, good: dict[str, Any]
) -> None:
    good = changed(good, "mixture", {"weights": {"web": 0.6, "code": 0.4}})
    found = key_differences(keys(good), keys(changed(good, key, value)))
    assert len(found) == 1 and found[0].startswith(line), found


UNCOUNTED = [
    ("sources.web.loaders", 3),
    ("sources.web.bad_rows_allowed", 9),
    ("runtime.prefetch", 9),
    ("index_dir", "elsewhere"),
    ("delivery.token_dtype", "int64"),
]


@pytest.mark.parametrize(("key", "value"), UNCOUNTED)
def test_what_does_not_count_is_not_kept(key: str, value: Any, good: dict[str, Any]) -> None:
    assert keys(changed(good, key, value)) == keys(good)


@pytest.mark.parametrize("alike", [True, False])
def test_many_sources_keep_less(alike: bool, good: dict[str, Any]) -> None:
    """Two KiB at most, whatever there is: hashes, or nothing, instead of values."""
    code = good["sources"]["code"]
    sources = {f"source-{i:03d}": {**code, "eod": 3 if alike else i} for i in range(306)}
    many = {**good, "sources": sources, "mixture": {"weights": dict.fromkeys(sources, 1.0)}}
    many.pop("streams", None)
    before = keys(many)
    assert len(json.dumps(before.told)) < 2048 and before.told["values"]["seed"] == 7
    other = changed(many, "mixture.weights.source-007", 2.0)
    assert key_differences(before, keys(other)) == ["mixture.weights: another value"]
    found = key_differences(before, keys(changed(many, "sources.source-007.eod", 5)))
    assert found == (["sources.source-007.eod: saved 3, now 5"] if alike else [])


def saved_state(config: dict[str, Any]) -> dict[str, Any]:
    with ol.job(config).train() as loader:
        next(loader)
        state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
        return state


def refused(
    config: dict[str, Any], state: Any, allow: tuple[str, ...] = (), engine: str = "embedded"
) -> str:
    with (
        ol.job(config).train(engine=engine) as loader,
        pytest.raises(ol.StateMismatchError) as caught,
    ):
        loader.load_state_dict(state, allow)
    return str(caught.value)


def test_a_refusal_names_the_keys(config: dict[str, Any]) -> None:
    state = saved_state(config)
    assert "\n  bins: saved 16, now 32" in refused(changed(config, "bins", 32), state)
    text = refused(changed(config, "mixture.weights.web", 0.75), state)
    assert "\n  mixture.weights.web: saved 0.5, now 0.75" in text and "bins" not in text
    text = refused(changed(config, "sources.web.eod", 7), state, ("mixture",))
    assert "\n  sources.web.eod: saved its default, now 7" in text
    edited = copy.deepcopy(state)
    edited[FIELD]["values"]["seed"] = 1
    assert "the state was edited: keys:" in refused(config, edited)
    # A state of before has no keys: it loads, or is refused as it was.
    old = {key: value for key, value in state.items() if key != FIELD}
    with ol.job(config).train() as loader:
        loader.load_state_dict(old)
        loader.load_state_dict(state)
    assert "config of stream: saved" in refused(changed(config, "bins", 32), old)


def test_so_does_one_by_a_node(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Which compares digests, and has no words for keys."""
    state = saved_state(config)

    def refuse(*_: object) -> None:
        raise ol.StateMismatchError("resume state does not fit this job")

    monkeypatch.setattr(Attachment, "attach", refuse)
    text = refused(changed(config, "bins", 32), state, engine="processes")
    assert text.startswith("resume state does not fit") and "\n  bins: saved 16, now 32" in text

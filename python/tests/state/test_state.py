"""The state dict: readable beside the blob, refused when edited, and precise about what differs."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest
from overlord._src.state import saved_state as states


def digest(*words: object) -> str:
    return hashlib.md5(repr(words).encode()).hexdigest()


def described(sources: int, microbatch: int = 0, layout: str | None = None) -> dict[str, Any]:
    """What the engine would say of a blob with this many sources."""
    names = [f"source-{number:03d}" for number in range(sources)]
    return {
        "format": 1,
        "stream": "train",
        "step": 18_234,
        "microbatch": microbatch,
        "layout": ("dp=2,tp=2" if microbatch else "") if layout is None else layout,
        "config_digest": digest("config"),
        "manifest_digest": digest("manifest"),
        "sections": {
            "stream": digest("stream"),
            "mixture": digest("mixture"),
            **{f"source:{name}": digest("section", name) for name in names},
        },
        "sources": {
            name: {
                "digest": digest("data", name),
                "pass": 1,
                "position": 123_456_789 + number,
                "samples": 10**9,
                "tokens": 10**12,
            }
            for number, name in enumerate(names)
        },
        "carried": 200,
    }


def make(sources: int = 3, microbatch: int = 0, blob: bytes = b"blob") -> dict[str, Any]:
    return states.build_state(blob, described(sources, microbatch), "demo")


def test_it_is_plain_data_and_comes_back() -> None:
    state = json.loads(json.dumps(make()))
    assert state["format"] == "overlord-state/1" and state["step"] == 18_234
    assert state["sources"]["source-001"]["position"] == 123_456_790
    assert states.open_state(state) == b"blob" and "mesh" not in state
    assert states.edited_fields(state, described(3)) == []


def test_306_sources_fit_in_64_kib() -> None:
    # The encoded state has, per source: name, two digests, the section's name, and a cursor.
    per_source = 2 * len("source-000") + len("source:") + 2 * 16 + 3 + 25
    blob = random.Random(1).randbytes(306 * per_source + 200 * 14 + 100)
    assert len(json.dumps(make(306, blob=blob))) < 64 * 1024


def test_inside_a_step_the_mesh_is_added() -> None:
    state, told = make(microbatch=3), described(3, 3)
    assert state["mesh"] == "dp=2,tp=2" and states.edited_fields(state, told) == []
    (found,) = states.edited_fields({**state, "mesh": "dp=4"}, told)
    assert found == "mesh: the state says 'dp=4', its blob says 'dp=2,tp=2'"
    del state["mesh"]
    (found,) = states.edited_fields(state, told)
    assert found == "mesh: the state says None, its blob says 'dp=2,tp=2'"
    (found,) = states.edited_fields({**make(), "mesh": "dp=4"}, described(3))
    assert found == "mesh: the state says 'dp=4', its blob has none"


def test_a_state_whose_mesh_is_not_in_its_blob_is_told_by_name() -> None:
    older = {**make(microbatch=3), "mesh": "dp=2,tp=2"}
    (found,) = states.edited_fields(older, described(3, 3, layout=""))
    assert "inside step 18234 by a version that did not put the mesh into its blob" in found


EDITS = [
    (("step",), 18_235, "step: the state says 18235, its blob says 18234"),
    (("sources", "source-001", "position"), 5, "sources.source-001.position: the state says 5"),
    (("sources", "source-001", "pass"), 0, "sources.source-001.pass"),
    (("sections", "mixture"), "00", "sections.mixture"),
    (("config",), "00", "config: the state says '00'"),
    (("stream",), "valid", "stream: the state says 'valid'"),
    (("sources", "new"), {"position": 1}, "sources.new"),
]


@pytest.mark.parametrize(("path", "value", "part"), EDITS)
def test_edits_are_shown(path: tuple[str, ...], value: Any, part: str) -> None:
    state = make()
    here = state
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    found = states.edited_fields(state, described(3))
    assert len(found) == 1 and part in found[0]


def without(key: str) -> dict[str, Any]:
    state = make()
    del state[key]
    return state


BROKEN = [
    (lambda: None, "a state is a mapping"),
    (lambda: {"format": "torch"}, "not an Overlord state"),
    (
        lambda: {**make(), "format": "overlord-state/9"},
        "/9'; this version reads 'overlord-state/1'",
    ),
    (lambda: without("blob"), r"missing \['blob'\]"),
    (lambda: {**make(), "extra": 1}, r"unknown \['extra'\]"),
    (lambda: {**make(), "blob": "!!"}, "not base64"),
]


@pytest.mark.parametrize(("state", "part"), BROKEN)
def test_broken_states_are_refused(state: Any, part: str) -> None:
    with pytest.raises(states.StateError, match=part):
        states.open_state(state())


def test_versions_are_told_apart() -> None:
    with pytest.raises(states.StateVersionError):
        states.open_state({**make(), "format": "overlord-state/2"})


def differences(change: dict[str, Any], *allow: str) -> list[str]:
    """Differences when this job has other digests than the state."""
    saved = described(2)
    sections = {**saved["sections"], **change.get("sections", {})}
    data = {name: item["digest"] for name, item in saved["sources"].items()} | change.get(
        "data", {}
    )
    for name in change.get("lost", ()):
        del sections[f"source:{name}"], data[name]
    known = {name: entry["digest"] for name, entry in saved["sources"].items() if name in data}
    changed = {name: "" for name, before in known.items() if before != data[name]}
    return states.differences(saved, sections, data, changed, allow)


def test_differences_are_precise() -> None:
    assert differences({}) == []
    (found,) = differences({"sections": {"mixture": "11"}})
    assert found == f"config of mixture: saved {digest('mixture')}, now 11"
    (found,) = differences({"data": {"source-001": "22"}})
    assert found == f"data of source source-001: saved {digest('data', 'source-001')}, now 22"
    assert "gained" in differences({"sections": {"source:new": "33"}})[0]
    assert "lost" in differences({"lost": ["source-000"]})[0]
    assert "stream" in differences({"sections": {"stream": "44"}})[0]


def test_declared_changes_are_let_through() -> None:
    assert differences({"sections": {"mixture": "11"}}, "mixture") == []
    gained = {"sections": {"source:new": "33", "mixture": "11"}, "lost": ["source-000"]}
    assert differences(gained, "sources") == []
    assert differences(gained, "mixture") != []
    assert differences({"sections": {"stream": "44"}}, "mixture", "sources") != []
    assert differences({"data": {"source-001": "22"}}, "sources") != []

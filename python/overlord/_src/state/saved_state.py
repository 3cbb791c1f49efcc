"""state_dict(): a readable part for people beside the engine's own encoded state.

The blob is what counts; the readable part is checked against it, so an edited state is refused with
the field that was changed. Plain data, rank-identical at a step boundary, never pickle.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from overlord._src.state import keys as state_keys

FORMAT = "overlord-state/1"
_FAMILY, _VERSION = "overlord-state", 1
_SHORT = 12  # hex digits of a source's digest that people see; the blob has all of it
_FIELDS = (
    "format",
    "job",
    "stream",
    "step",
    "microbatch",
    "config",
    "manifest",
    "sections",
    "sources",
    "blob",
)
_TOTALS = "so_far"  # what the steps held; absent in what older versions saved
_MIDSTEP = "mesh"  # added inside a step: what its count of microbatches means something on


class StateError(ValueError):
    """Why a state cannot be read; the loader raises the engine's error with this text."""


class StateVersionError(StateError):
    """A state of another format version."""


def build_state(blob: bytes, described: Mapping[str, Any], job: str) -> dict[str, Any]:
    """The state dict around an encoded state; `described` is what the engine says of the blob."""
    return {
        "format": FORMAT,
        "job": job,
        **_readable(described),
        "blob": base64.b64encode(blob).decode(),
    }


def _readable(described: Mapping[str, Any]) -> dict[str, Any]:
    bound = {_MIDSTEP: described["layout"]} if described["layout"] else {}
    totals = {_TOTALS: dict(described["totals"])} if described.get("bins") else {}
    return {
        "stream": described["stream"],
        "step": int(described["step"]),
        "microbatch": int(described["microbatch"]),
        "config": described["config_digest"],
        "manifest": described["manifest_digest"],
        "sections": {
            name: digest
            for name, digest in described["sections"].items()
            if not name.startswith("source:")
        },
        "sources": {
            name: {
                "digest": source["digest"][:_SHORT],
                "pass": int(source["pass"]),
                "position": int(source["position"]),
            }
            for name, source in described["sources"].items()
        },
        **bound,
        **totals,
    }


def open_state(state: Any) -> bytes:
    """The blob of a state dict."""
    if not isinstance(state, Mapping):
        raise StateError(
            f"a state is a mapping as state_dict() gives it, got {type(state).__name__}"
        )
    form = state.get("format")
    family, _, version = str(form).partition("/")
    if family != _FAMILY:
        raise StateError(
            f"not an Overlord state: format is {form!r}, this version reads {FORMAT!r}"
        )
    if version != str(_VERSION):
        raise StateVersionError(f"state of format {form!r}; this version reads {FORMAT!r}")
    missing = [name for name in _FIELDS if name not in state]
    unknown = [
        name for name in state if name not in (*_FIELDS, _TOTALS, _MIDSTEP, state_keys.FIELD)
    ]
    if missing or unknown:
        raise StateError(
            f"the state is incomplete or was edited: missing {missing}, unknown {unknown}; "
            "use the dict that state_dict() gave, whole"
        )
    try:
        return base64.b64decode(str(state["blob"]), validate=True)
    except (binascii.Error, ValueError):
        raise StateError("the state's blob is not base64: it was truncated or edited") from None


def edited_fields(state: Mapping[str, Any], described: Mapping[str, Any]) -> list[str]:
    """Fields of the readable part that say something else than the blob, both values shown."""
    found: list[str] = []
    if described["microbatch"] and not described["layout"]:
        return [
            f"mesh: the state was saved inside step {described['step']} by a version that did not "
            "put the mesh into its blob, so nothing shows that the mesh it names is the one; "
            "resume from a state saved at a step boundary"
        ]
    _compare("", _readable(described), state, found)
    if _MIDSTEP in state and not described["layout"]:
        found.append(f"mesh: the state says {state[_MIDSTEP]!r}, its blob has none")
    return found


def _compare(path: str, blob: Mapping[str, Any], shown: Any, found: list[str]) -> None:
    for name, value in blob.items():
        here = f"{path}.{name}" if path else name
        says = shown.get(name) if isinstance(shown, Mapping) else None
        if isinstance(value, Mapping):
            _compare(here, value, says, found)
            given = says.items() if isinstance(says, Mapping) else ()
            found += [
                f"{here}.{key}: the state says {item!r}, its blob has none"
                for key, item in given
                if key not in value
            ]
        elif says != value:
            found.append(f"{here}: the state says {says!r}, its blob says {value!r}")


def layout_differences(described: Mapping[str, Any], layouts: list[str], hybrid: bool) -> list[str]:
    """What a state inside a step is bound to and this loader has not; at a boundary nothing."""
    bound = described["layout"]
    if not bound or [_essential(bound)] == [_essential(layout) for layout in layouts]:
        return []
    return [
        f"mesh: saved inside step {described['step']}, after {described['microbatch']} "
        f"microbatches on {bound}, now {' and '.join(layouts)}; another mesh can go on from a "
        "state saved at a step boundary" + (", and so can another rank" if hybrid else "")
    ]


def _essential(layout: str) -> list[str]:
    """A layout without the axes of one rank."""
    return [part for part in layout.split(",") if not part.endswith("=1")]


ALLOWABLE = ("mixture", "sources", "batch")


def differences(
    described: Mapping[str, Any],
    sections: Mapping[str, str],
    source_digests: Mapping[str, str],
    changed: Mapping[str, str],
    allow: tuple[str, ...],
) -> list[str]:
    """What the state was saved for and this job is not, unless allowed; both digests shown.

    `changed` are the sources whose data the engine does not find to be the same, with its advice.
    """
    saved_sections: Mapping[str, str] = described["sections"]
    saved_sources: Mapping[str, Any] = described["sources"]
    found: list[str] = []
    for name in sorted({*saved_sections, *sections}):
        before, now = saved_sections.get(name), sections.get(name)
        if before == now or _is_allowed(name, before, now, allow):
            continue
        if before is None or now is None:
            what = "gained" if before is None else "lost"
            found.append(f"{_title(name)}: {what} since the state was saved")
        else:
            found.append(f"config of {_title(name)}: saved {before}, now {now}")
    for name, advice in sorted(changed.items()):
        before, now = saved_sources[name]["digest"], source_digests[name]
        found.append(f"data of source {name}: saved {before}, now {now}{advice}")
    return found


def _title(section: str) -> str:
    return section.replace("source:", "source ")


def _is_allowed(name: str, before: str | None, now: str | None, allow: tuple[str, ...]) -> bool:
    if name == "stream" and "batch" in allow:
        return True  # the engine knows whether anything else of it differs
    if name == "mixture":
        return "mixture" in allow or "sources" in allow
    gained_or_lost = before is None or now is None
    return name.startswith("source:") and gained_or_lost and "sources" in allow


def refusal(found: list[str]) -> str:
    """The message for differences that are not allowed."""
    lines = "".join(f"\n  {item}" for item in found)
    return (
        f"the state was saved for other data or another config:{lines}\n"
        "Resume with what it was saved with, or declare the change: load_state_dict(state, "
        'allow=("mixture",)) for weights and steps, allow=("sources",) for sources gained or lost, '
        'allow=("batch",) at a step boundary for another batch size'
    )

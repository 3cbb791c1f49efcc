"""What a look found, in words: a line of facts, lengths, what was left aside, the config."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import yaml

from overlord._src.look.found import Found
from overlord._src.look.places import File, Listing
from overlord._src.showing.histogram import Histogram, histogram

_SHOWN_NAMES = 6


def show_bytes(value: float) -> str:
    """Bytes with a decimal unit."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} bytes"


def facts(found: Found) -> str:
    """Layout, files, bytes, rows, and how much of it was looked at."""
    many = len(found.files)
    parts = [found.layout, f"{many:,} file{'s' if many != 1 else ''}", show_bytes(found.size)]
    if found.rows is not None:
        parts.append(f"{'' if found.exact else 'about '}{found.rows:,} rows")
    seen = f"looked at {len(found.sample.rows):,} rows of {found.sample.files:,} of {many:,} files"
    return ", ".join(parts) + "; " + seen


def histograms(found: Found) -> list[Histogram]:
    """Lengths of the rows that were looked at."""
    drawn = [histogram(name, unit, values) for name, (unit, values) in found.lengths.items()]
    return [one for one in drawn if one is not None]


def left_aside(listing: Listing, rest: Sequence[File]) -> list[str]:
    """What belongs to no source, and what was not even listed."""
    lines = []
    if rest:
        ends = Counter(_ending(file) for file in rest)
        kinds = ", ".join(f"{count:,} {end}" for end, count in ends.most_common(_SHOWN_NAMES))
        names = ", ".join(file.uri.removeprefix(listing.root) for file in rest[:_SHOWN_NAMES])
        more = ", ..." if len(rest) > _SHOWN_NAMES else ""
        size = show_bytes(sum(file.size for file in rest))
        lines.append(f"left aside: {len(rest):,} files of {size} ({kinds}): {names}{more}")
    if not listing.whole:
        lines.append(
            f"there are more files: the first {len(listing.names):,} were listed; "
            "look at a folder within for the others"
        )
    return lines


def _ending(file: File) -> str:
    return "." + file.name.rsplit(".", 1)[1] if "." in file.name[1:] else "without suffix"


class _Dumper(yaml.SafeDumper):
    """Short lists and mappings in one line, as people write them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _as_people_write(dumper: yaml.SafeDumper, data: Any) -> Any:
    plain = isinstance(data, list) and not any(isinstance(item, dict) for item in data)
    short = plain or (isinstance(data, dict) and len(str(data)) < 100)
    if isinstance(data, dict):
        return dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=short)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=short)


_Dumper.add_representer(dict, _as_people_write)
_Dumper.add_representer(list, _as_people_write)


def config_text(everything: Sequence[Found]) -> str:
    """The part of a config that reads what was found."""
    whole: dict[str, Any] = {}
    for found in everything:
        for key, value in found.config().items():
            whole.setdefault(key, {}).update(value)
    return yaml.dump(whole, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)

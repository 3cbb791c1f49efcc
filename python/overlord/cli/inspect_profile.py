"""What `overlord inspect` says of costs: the profiles that runs have left beside the indexes."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlord._src.index.source_profile import SourceProfile


def show_profiles(console: Any, job: Any, options: argparse.Namespace) -> None:
    """Every source's last run, in short and by stage; or as JSON."""
    from overlord._src.index.source_profile import read_profiles

    opened = job.open_stream(options.stream)
    names = opened.source_names
    found = read_profiles(job.loaded, opened.sources)
    if options.json:
        print(json.dumps([profile.data() for profile in found.values()], indent=1))
        return
    if found:
        print_summary(console, found.values())
        console.print()
        _print_stages(console, found.values())
    without = [name for name in names if name not in found]
    if without:
        console.print(
            f"no profile of {', '.join(without)}: a run that reads a source leaves one beside its "
            "index",
            markup=False,
        )


def print_summary(console: Any, profiles: Any) -> None:
    """A line for each source."""
    from overlord._src.index.source_profile import WORKING_STAGES, dominating
    from overlord.cli.terminal import add_rows, make_table, right, show_count, show_size

    def shown(profile: SourceProfile) -> list[str]:
        stages = profile.stages
        times = {name: stage.ns for name, stage in stages.items()}
        read, sent = stages["read"].in_bytes, stages["send"].out_bytes
        return [
            profile.source,
            show_count(profile.documents),
            show_count(profile.rows_per_s),
            show_count(profile.rows_per_core_s),
            *(f"{profile.per_row(times[name]) / 1e3:.3g}" for name in ("read", *WORKING_STAGES)),
            show_size(profile.per_row(read)),
            show_size(profile.per_row(sent)),
            f"{sent / read:.2f}" if read else "-",
            show_size(profile.memory_bytes),
            dominating(times) or "-",
        ]

    table = make_table(
        "last run",
        *right("rows", "rows/s", "rows/s a core"),
        *right(*(f"{name} us" for name in ("read", *WORKING_STAGES))),
        *right("in a row", "out", "out/in", "memory"),
        "most time in",
        spare=("out/in", "out", "in a row", "rows", *(f"{name} us" for name in WORKING_STAGES)),
    )
    console.print(add_rows(table, [shown(profile) for profile in profiles]))


def _print_stages(console: Any, profiles: Any) -> None:
    """Every stage that did anything."""
    from overlord.cli.terminal import print_rows, right, show_size

    rows = []
    for profile in profiles:
        for name, stage in profile.stages.items():
            if not (stage.ns or stage.in_bytes or stage.peak_bytes):
                continue
            share = stage.ns / profile.work_ns if profile.work_ns and name != "read" else None
            rows.append(
                (
                    profile.source,
                    name,
                    f"{stage.ns / 1e9:.3f} s",
                    f"{share:.0%}" if share is not None else "",
                    show_size(stage.in_bytes),
                    show_size(stage.out_bytes),
                    f"{stage.out_bytes / stage.in_bytes:.2f}" if stage.in_bytes else "-",
                    show_size(stage.peak_bytes),
                )
            )
    numbers = right("time", "of the work", "in", "out", "out/in", "most memory")
    print_rows(console, rows, "source", "stage", *numbers)

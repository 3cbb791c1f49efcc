"""`overlord calibrate`: a cost model fitted to measured times, and how far to trust it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.errors import ConfigError, refused

if TYPE_CHECKING:
    from overlord._src.cost.fitting import Errors, Fit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument(
        "csv",
        metavar="CSV",
        nargs="?",
        default=None,
        help="rows with tokens (or other lengths) and time_ms, or forward_ms and backward_ms",
    )
    parser.add_argument(
        "--from",
        dest="reports",
        metavar="FILE",
        default=None,
        help="instead of a CSV: times that a trainer reported, as loader.save_reports() wrote them",
    )
    parser.add_argument(
        "--skip", type=int, default=0, help="with --from: leave out so many first steps"
    )
    parser.add_argument("--model", default=None, help="only rows of this model (column `model`)")
    parser.add_argument(
        "--columns", default="", help="length columns, like tokens,image_patches (default: known)"
    )
    parser.add_argument(
        "--layers", type=int, default=1, help="so many times what was measured (default 1)"
    )
    parser.add_argument(
        "--rows", type=int, default=10, help="rows to list, the worst first (default 10)"
    )
    parser.add_argument("--json", metavar="FILE", default=None, help="write the report")


def run(options: argparse.Namespace) -> int:
    """Fit every model of the file, report, and print what to put into a config."""
    from overlord._src.cost.fitting import fit
    from overlord._src.cost.measurements import read_measurements
    from overlord._src.cost.reported import read_reports
    from overlord.cli.terminal import make_console

    if not 1 <= options.layers <= 2**20:
        raise refused(("--layers",), "out of range", options.layers, "1 to 2^20")
    if options.rows < 0:
        raise refused(("--rows",), "too small", options.rows, "0 or more")
    if (options.csv is None) == (options.reports is None):
        raise refused(("CSV",), "needs a CSV, or --from with a file of reports")
    if options.skip < 0 or (options.skip and options.reports is None):
        raise refused(("--skip",), "needs --from, and 0 or more", options.skip)
    columns = [name.strip() for name in options.columns.split(",") if name.strip()]
    origin = options.csv or options.reports
    if options.reports is not None:
        measured = [read_reports(Path(options.reports), options.skip)]
    else:
        measured = read_measurements(Path(options.csv), columns)
    if options.model is not None:
        names = [rows.model for rows in measured]
        measured = [rows for rows in measured if rows.model == options.model]
        if not measured:
            known = ", ".join(filter(None, names)) or "none: there is no column `model`"
            raise refused(("--model",), "no rows of it", options.model, known)
    try:
        fits = [fit(rows) for rows in measured]
    except ConfigError as error:
        raise error.at(origin) from None
    if options.json:
        report = [report_of(found, options.layers) for found in fits]
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")
    console = make_console()
    for found in fits:
        print_fit(console, found, options.layers, options.rows)
    return 0


def report_of(found: Fit, layers: int) -> dict[str, Any]:
    """A fit as plain data."""
    rows = found.measurements
    predicted = rows.time_ns * (1 + found.row_errors)
    return {
        "model": rows.model,
        "layers": layers,
        "coefficients_ns": {
            "bin": found.bin_ns,
            "linear": found.linear_ns,
            "quadratic": found.quadratic_ns,
        },
        "errors": _shares(found.errors),
        "held_out_errors": _shares(found.held_out),
        "folds": found.folds,
        "rows": [
            {"line": line, "measured_ms": float(time) / 1e6, "predicted_ms": float(guess) / 1e6}
            | {"error": float(error)}
            for line, time, guess, error in zip(
                rows.lines, rows.time_ns, predicted, found.row_errors, strict=True
            )
        ],
        "cost": found.model(layers).to_dict(),
    }


def print_fit(console: Any, found: Fit, layers: int, limit: int) -> None:
    """Coefficients, errors, the worst rows and the YAML."""
    from overlord.cli.terminal import print_rows, right

    rows = found.measurements
    title = f"model {rows.model}: " if rows.model else ""
    console.print(f"{title}{len(rows.lines)} rows, times as measured")
    shapes = [("microbatch", f"{found.bin_ns / 1e3:.4g} us", "")]
    for name in rows.columns:
        linear, quadratic = found.linear_ns[name], found.quadratic_ns[name]
        equal = f"equal at a length of {linear / quadratic:,.0f}" if linear and quadratic else ""
        shapes.append((f"unit of {name}", f"{linear:.5g} ns", equal))
        shapes.append((f"squared length of {name}", f"{quadratic:.5g} ns", ""))
    print_rows(console, shapes, "per", *right("time"), "")
    errors = [
        ("of the rows fitted to", *_percents(found.errors)),
        (f"of held-out rows ({found.folds} folds)", *_percents(found.held_out)),
    ]
    print_rows(console, errors, "relative error", *right("median", "p90", "max"))
    order = sorted(range(len(rows.lines)), key=lambda i: -abs(found.row_errors[i]))
    worst = [
        (
            rows.lines[i],
            *(f"{rows.totals[name][i]:.0f}" for name in rows.columns),
            f"{rows.time_ns[i] / 1e6:.4g}",
            f"{rows.time_ns[i] * (1 + found.row_errors[i]) / 1e6:.4g}",
            f"{found.row_errors[i]:+.1%}",
        )
        for i in order[:limit]
    ]
    if worst:
        headings = ("line", *rows.columns, "measured ms", "predicted ms", "error")
        print_rows(console, worst, *right(*headings))
    if 0 < limit < len(order):
        console.print(f"and {len(order) - limit} more rows; --rows N lists them, --json has all")
    print(yaml_of(found, layers))


def yaml_of(found: Fit, layers: int) -> str:
    """The model as a config has it: exact integers, with what they mean beside them."""
    import yaml

    held = found.held_out
    times = f", {layers} times what was measured" if layers > 1 else ""
    note = (
        f"# fitted to {len(found.measurements.lines)} rows{times}; held-out error: median "
        f"{held.median:.1%}, p90 {held.p90:.1%}, max {held.maximum:.1%}\n"
        "# q32: units of 2^-32 nanoseconds, q16: units of 2^-16 bytes\n"
    )
    body = yaml.safe_dump({"cost": found.model(layers).to_dict()}, sort_keys=False)
    return note + body.rstrip("\n")


def _shares(errors: Errors) -> dict[str, float]:
    return {"median": errors.median, "p90": errors.p90, "max": errors.maximum}


def _percents(errors: Errors) -> tuple[str, ...]:
    return tuple(f"{share:.1%}" for share in _shares(errors).values())

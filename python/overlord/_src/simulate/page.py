"""The report as one HTML page that needs nothing else: no script, no link, no font from outside."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from overlord._src.showing import page_parts
from overlord._src.simulate import report as reports
from overlord._src.simulate.report import Report

_STYLE = """
  body { margin: 2rem auto; max-width: 900px; padding: 0 1rem; line-height: 1.5;
         font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
         color: #1d2532; background: #ffffff; }
  table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-size: 0.9rem; }
  th, td { padding: 0.3rem 0.6rem; text-align: right; border-bottom: 1px solid #d5d9e0; }
  th:first-child, td:first-child { text-align: left; }
  figure { margin: 1.5rem 0; }
  svg { width: 100%; height: auto; }
  .finding { font-size: 1.1rem; font-weight: 600; }
  dt { font-weight: 600; } dd { margin: 0 0 0.6rem 1rem; }
  @media (prefers-color-scheme: dark) {
    body { color: #e8edf4; background: #0d1117; }
    th, td { border-color: #30363d; }
  }
"""


def html_page(report: Report) -> str:
    """The whole page."""
    drawn = {
        name: text.replace(' xmlns="http://www.w3.org/2000/svg"', "")
        for name, text in reports.pictures(report).items()
    }
    title = f"Simulation: {reports.setting(report)}"
    parts = [
        f"<h1>{escape(report['workload']['name'])}: what placement does to a step</h1>",
        f'<p class="finding">{escape(reports.headline(report))}</p>',
        f"<p>{escape(_what_is_compared(report))}</p>",
        _figure(drawn["step_time"]),
        _table(reports.STRATEGY_HEADINGS, reports.strategy_rows(report)),
        f"<p>{escape(_how_to_read(report))}</p>",
        f"<p>{escape(reports.limits(report))}</p>",
        _figure(drawn["steps"]),
        _figure(drawn["work"]),
        "<h2>The strategies</h2>",
        _strategies(report),
        "<h2>Bytes of a step</h2>",
        _table(("hop", "bytes per step"), reports.hop_rows(report)),
        f"<p>{escape(_loaders(report))}</p>",
        "<h2>Host memory</h2>",
        _table(("role", "whole job"), reports.memory_rows(report)),
        f"<p>{escape(_assumed(report))}</p>",
        _figure(drawn["memory"]),
    ]
    return page_parts.page(title, parts, _STYLE)


def write_page(report: Report, path: Path) -> None:
    """The page as a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html_page(report))


def _figure(svg: str) -> str:
    return f"<figure>\n{svg}</figure>"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in headings)
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _strategies(report: Report) -> str:
    items = [
        f"<dt>{escape(item['title'])}</dt><dd>{escape(item['description'])}</dd>"
        for item in report["strategies"].values()
    ]
    return "<dl>\n" + "\n".join(items) + "\n</dl>"


def _what_is_compared(report: Report) -> str:
    workload = report["workload"]
    encoder = (
        ""
        if "encoder" not in report["model"]["modules"]
        else " Media first goes through an encoder, whose slowest rank all wait for; then the "
        "backbone runs."
    )
    return (
        f"Every strategy gets the same {report['steps']} steps of {report['global_batch']:,} "
        f"{workload['atoms']}: {workload['description']}, {workload['mean_tokens']:,.0f} tokens on "
        f"average, none over {workload['context']:,}. A strategy only decides which of the "
        f"{report['mesh']['groups']:,} data-parallel groups, and which of its "
        f"{report['microbatches']} microbatches, gets a sample. The time of a sample comes from "
        f"layer times of {report['model']['name']} measured on one H200; the time of a step is "
        f"that of the slowest group, whose microbatches run through {report['mesh']['stages']} "
        f"pipeline stages in 1F1B order.{encoder} Communication is not counted. Nothing was "
        "trained: these are predictions from lengths alone."
    )


def _how_to_read(report: Report) -> str:
    return (
        "Speed-up is against arrival order. Groups, microbatches and encoder ranks: the largest "
        "work over the mean, so 1.000 is even. Over even work: time of the step over that of "
        "perfectly even work. Most tokens: of any microbatch, for its activations must fit. "
        "Exchanged: embeddings that must travel between groups because encoder and backbone of a "
        "sample have different owners."
    )


def _loaders(report: Report) -> str:
    loaders = report["loaders"]
    return (
        f"To keep up, {loaders['loaders']:,} loaders with {loaders['workers']:,} workers are "
        f"needed, one source per loader at least; the heaviest source, "
        f"{loaders['heaviest_source']}, needs {loaders['heaviest_source_workers']:,} workers. If "
        f"work could be spread freely, {loaders['busy_workers']:.1f} workers would be busy."
    )


def _assumed(report: Report) -> str:
    assumed = report["memory"]["assumed"]
    return (
        f"Assumed: an open source takes {reports.show_size(assumed['file_state_bytes'])} in a "
        f"worker, a worker's buffer {reports.show_size(assumed['worker_buffer_bytes'])}, a "
        f"constructor {reports.show_size(assumed['constructor_base_bytes'])} before its first "
        f"sample, {assumed['prefetch_steps']} steps are prefetched; a colocated process per (dp, "
        f"cp, pp) place runs {assumed['colocated_workers']} workers that open every source."
    )

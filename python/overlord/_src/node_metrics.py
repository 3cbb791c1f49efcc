"""Figures of a node as Prometheus text, and a small server of them for this host alone."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import socketserver
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from overlord._src.errors import ConfigError, Problem
from overlord._src.native import core
from overlord._src.node_watch import ask, process_memory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LOOPBACK = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}
_NS = 1e-9

# Field of the status -> (metric, type, factor, help).
_LOADER = {
    "queue": ("overlord_source_queue_blocks", "gauge", 1, "Blocks that wait to be read"),
    "in_work": ("overlord_source_in_work_blocks", "gauge", 1, "Blocks that are being read"),
    "rows_posted": ("overlord_source_rows_total", "counter", 1, "Rows made ready"),
    "documents": ("overlord_source_documents_total", "counter", 1, "Documents handed over"),
    "read_bytes": ("overlord_source_read_bytes_total", "counter", 1, "Bytes read from storage"),
    "bad_rows": ("overlord_source_bad_rows_total", "counter", 1, "Rows found bad"),
    "buffer_bytes": ("overlord_source_buffer_bytes", "gauge", 1, "Bytes of rows kept ready"),
    "transform_ns": (
        "overlord_source_transform_seconds_total",
        "counter",
        _NS,
        "Time spent decoding and tokenising",
    ),
    "read_wait_ns": (
        "overlord_source_read_wait_seconds_total",
        "counter",
        _NS,
        "Time spent waiting for storage",
    ),
}
_CLIENT = {
    "steps_consumed": ("overlord_rank_steps_total", "counter", 1, "Steps that the rank consumed"),
    "microbatches": ("overlord_rank_microbatches_total", "counter", 1, "Microbatches handed out"),
    "wait_ns": (
        "overlord_rank_wait_seconds_total",
        "counter",
        _NS,
        "Time the rank waited for its next microbatch",
    ),
    "queue": ("overlord_rank_queue_steps", "gauge", 1, "Steps that lie ready for the rank"),
}
_CONSTRUCTOR = {
    "steps_ready": ("overlord_constructor_steps_ready", "gauge", 1, "Steps assembled and kept"),
    "bytes_assembled": (
        "overlord_constructor_assembled_bytes_total",
        "counter",
        1,
        "Bytes of microbatches assembled",
    ),
    "assemble_ns": (
        "overlord_constructor_assemble_seconds_total",
        "counter",
        _NS,
        "Time spent assembling",
    ),
}
_MEMORY = {
    "rss_bytes": "Resident memory",
    "pss_bytes": "Resident memory, shared pages divided among those that map them",
    "private_bytes": "Memory that no other process maps",
    "shared_bytes": "Resident memory that other processes map as well",
}


@dataclass
class _Family:
    kind: str
    told: str
    samples: list[tuple[dict[str, str], float]] = field(default_factory=list)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


class MetricText:
    """Collects figures, and writes them with help and type, each name once."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._families: dict[str, _Family] = {}

    def add(self, name: str, kind: str, told: str, value: float, **labels: Any) -> None:
        """One figure."""
        family = self._families.setdefault(name, _Family(kind, told))
        named = {key: str(item) for key, item in labels.items()}
        family.samples.append(({**self._labels, **named}, value))

    def text(self) -> str:
        """All of it."""
        lines = []
        for name, family in self._families.items():
            lines += [f"# HELP {name} {family.told}.", f"# TYPE {name} {family.kind}"]
            for labels, value in family.samples:
                inner = ",".join(f'{key}="{_escaped(item)}"' for key, item in labels.items())
                lines.append(
                    f"{name}{{{inner}}} {_number(value)}" if inner else f"{name} {_number(value)}"
                )
        return "\n".join(lines) + "\n"


def metrics_text(status: dict[str, Any]) -> str:
    """The status of a node as Prometheus text."""
    out = MetricText(job=status["job"], stream=status["stream"])
    out.add("overlord_up", "gauge", "Whether the node answers", 1)
    out.add("overlord_serving", "gauge", "Whether all ranks are attached", int(status["serving"]))
    out.add("overlord_attempt", "gauge", "The attempt that is served", status["attempt"])
    out.add("overlord_missing_ranks", "gauge", "Ranks not attached yet", len(status["missing"]))
    out.add("overlord_gone_ranks", "gauge", "Ranks that have died", len(status["gone"]))
    planner, memory = status["planner"], status["memory"]
    out.add("overlord_plans_total", "counter", "Steps planned", planner["plans"])
    out.add(
        "overlord_planning_seconds_total",
        "counter",
        "Time spent planning",
        planner["planning_ns"] * _NS,
    )
    out.add("overlord_payload_bytes", "gauge", "Payload in flight", memory["payload_bytes"])
    out.add("overlord_pool_bytes", "gauge", "Memory of all pools", memory["pool_held_bytes"])
    for item in status["loaders"]:
        _add_fields(out, _LOADER, item, source=item["source"], slot=item["slot"])
    for item in status["clients"]:
        _add_fields(out, _CLIENT, item, rank=item["rank"])
    for item in status["constructors"]:
        _add_fields(out, _CONSTRUCTOR, item, group=item["bucket"])
    for name, pid, restarts in _processes(status):
        out.add(
            "overlord_process_restarts_total",
            "counter",
            "How often the process was started again",
            restarts,
            process=name,
        )
        for key, value in (process_memory(pid) or {}).items():
            out.add(f"overlord_process_{key}", "gauge", _MEMORY[key], value, process=name)
    return out.text()


def _processes(status: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    yield "node", status["pid"], 0
    for item in status["processes"]:
        name = item["name"].partition("@")[0]  # a trainer's pid would make a series of every start
        yield name, item["pid"], item["restarts"]


def _add_fields(
    out: MetricText, fields: dict[str, Any], item: dict[str, Any], **labels: Any
) -> None:
    for key, (name, kind, factor, told) in fields.items():
        out.add(name, kind, told, item[key] * factor, **labels)


def node_metrics(directory: str) -> str:
    """Figures of the node in a directory; only that it is not up where none answers."""
    try:
        return metrics_text(ask(directory))
    except core.OverlordError:
        out = MetricText()
        out.add("overlord_up", "gauge", "Whether the node answers", 0)
        return out.text()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 5.0
    server_version = "overlord"
    sys_version = ""

    def do_GET(self) -> None:
        """The figures, on /metrics."""
        if self.path.split("?")[0] not in ("/", "/metrics"):
            self.send_error(404)
            return
        body = self.server.figures().encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a scrape is no news."""

    def address_string(self) -> str:
        """A Unix socket has no address of the other end."""
        return "local"


class MetricsServer:
    """Serves figures over HTTP on a loopback port (`127.0.0.1:9400`) or a socket (`unix:PATH`).

    Other addresses are refused: the figures have no lock of their own.
    """

    def __init__(self, address: str, figures: Callable[[], str]) -> None:
        self._path: str | None = None
        self._server: socketserver.TCPServer | socketserver.UnixStreamServer
        if address.startswith("unix:"):
            self._path = address.removeprefix("unix:")
            self._server = _unix_server(self._path)
            self.address = address
        else:
            host, port = _loopback(address)
            self._server = _port_server(host, port)
            shown = f"[{host}]" if ":" in host else host
            self.address = f"http://{shown}:{self._server.socket.getsockname()[1]}/metrics"
        self._server.figures = figures  # type: ignore[attr-defined]

    def serve(self) -> None:
        """Serve until closed from another thread, or interrupted."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop, and take the socket away."""
        self._server.shutdown()
        self.__exit__()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.server_close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)


class _Threaded(socketserver.ThreadingMixIn):
    daemon_threads = True


class _UnixServer(_Threaded, socketserver.UnixStreamServer):
    pass


class _PortServer(_Threaded, socketserver.TCPServer):
    allow_reuse_address = True


class _Port6Server(_PortServer):
    address_family = socket.AF_INET6


def _port_server(host: str, port: int) -> socketserver.TCPServer:
    kind = _Port6Server if _LOOPBACK[host] == socket.AF_INET6 else _PortServer
    return kind((host, port), _Handler)


def _unix_server(path: str) -> socketserver.UnixStreamServer:
    """A socket that this user alone can connect to; one that a dead server left is replaced."""
    if Path(path).is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(path) == 0:
                raise core.UnavailableError(f"{path}: something listens there already")
        os.unlink(path)
    before = os.umask(0o177)
    try:
        return _UnixServer(path, _Handler)
    finally:
        os.umask(before)


def _loopback(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65535 or host not in _LOOPBACK:
        raise ConfigError(
            Problem(
                ("--serve-metrics",),
                "figures are served on this host alone",
                address,
                "127.0.0.1:PORT, [::1]:PORT or unix:PATH",
                advice="let an agent on this host pass them on",
            )
        )
    return host, int(port)


__all__ = ["CONTENT_TYPE", "MetricsServer", "metrics_text", "node_metrics"]

"""Figures of a node as Prometheus text, and a small server of them for this host alone."""

from __future__ import annotations

import contextlib
import http.server
import os
import socket
import socketserver
from collections.abc import Callable
from pathlib import Path
from typing import Any

from overlord._src.errors import refused
from overlord._src.native import core
from overlord._src.node.watch import asked_metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LOOPBACK = {"127.0.0.1": socket.AF_INET, "localhost": socket.AF_INET, "::1": socket.AF_INET6}
_SILENT = """\
# HELP overlord_up Whether the node answers.
# TYPE overlord_up gauge
overlord_up 0
"""


def node_metrics(directory: str) -> str:
    """Figures of the node in a directory; only that it is not up where none answers."""
    try:
        return asked_metrics(directory)
    except core.OverlordError:
        return _SILENT


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


class _UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _PortServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
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
    # Who sees PATH can connect to it: it appears once it is listened to.
    unheard = f"{path}.{os.getpid()}"
    before = os.umask(0o177)
    try:
        server = _UnixServer(unheard, _Handler)
    finally:
        os.umask(before)
    os.rename(unheard, path)
    return server


def _loopback(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or int(port) > 65535 or host not in _LOOPBACK:
        raise refused(
            ("--serve-metrics",),
            "figures are served on this host alone",
            address,
            "127.0.0.1:PORT, [::1]:PORT or unix:PATH",
            advice="let an agent on this host pass them on",
        )
    return host, int(port)

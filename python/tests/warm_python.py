"""Processes of Python that start with the package imported: most of what a short one costs.

A process that has imported it, and has no thread, forks one for every program. The program has the
environment, folder and pipes that it would have of its own, is `__main__`, and ends as an
interpreter does. The line of descent is: tests, parent, waiter (one a program), program.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

PARENT = r"""
import importlib, json, os, signal, socket, sys
import overlord._src.checkup.preflight, overlord._src.loader.attached_engine
import overlord._src.loader.loader

for name in sys.argv[2:]:
    importlib.import_module(name)


def next_program(door):
    # Comes back in the process of a program alone.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        hello, files, _, _ = socket.recv_fds(door, 1, 4)
        if not hello:
            os._exit(0)  # those who asked have ended
        if os.fork() == 0:
            door.close()
            return wait_for_program(*files)
        for descriptor in files:
            os.close(descriptor)


def wait_for_program(stdin, stdout, stderr, line):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=line) as line:
        wanted = json.loads(line.makefile().readline())
        program = os.fork()
        if program != 0:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
            line.sendall(program.to_bytes(4, "little"))
            code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
            line.sendall(code.to_bytes(4, "little", signed=True))
            os._exit(0)
    for number, descriptor in enumerate((stdin, stdout, stderr)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    return wanted


def become(wanted):
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["environment"])
    sys.argv = ["-c", *wanted["arguments"]]
    sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(":") if path]
    return compile(wanted["program"], "<string>", "exec")


def run(program):
    names = globals()
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    exec(program, names)


run(become(next_program(socket.socket(fileno=int(sys.argv[1])))))
"""


@functools.cache
def door_of_parent(prefix: tuple[str, ...], modules: tuple[str, ...]) -> socket.socket:
    """Where programs are asked for that find these imported; with its last copy the parent ends."""
    door, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = [*prefix, sys.executable, "-c", PARENT, str(its.fileno()), *modules]
        alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # threads would not be in what it forks
        subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, env=alone)
    return door


COMMAND = """
import os, sys
from overlord.cli import main

os.setsid()
os.dup2(2, 1)
sys.exit(main(sys.argv[1:]))
"""


class WarmProcess:
    """As `subprocess.Popen([*prefix, sys.executable, "-c", program, *arguments], ..., text=True)`.

    `prefix`: what starts a command on another host; its parent of processes is there too.
    """

    def __init__(
        self,
        program: str,
        arguments: list[str],
        environment: Mapping[str, str],
        stderr: int = 2,
        modules: Sequence[str] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        self.returncode: int | None = None
        line, its = socket.socketpair()
        input_end, input_start = os.pipe()
        output_end, output_start = os.pipe()
        passed = [input_end, output_start, stderr, its.fileno()]
        try:
            socket.send_fds(door_of_parent(tuple(prefix), tuple(modules)), [b"?"], passed)
        except BrokenPipeError:  # the parent has died with its host
            door_of_parent.cache_clear()
            socket.send_fds(door_of_parent(tuple(prefix), tuple(modules)), [b"?"], passed)
        its.close()
        os.close(input_end)
        os.close(output_start)
        self.stdin = os.fdopen(input_start, "w")
        self.stdout = os.fdopen(output_end)
        self._line = line
        wanted = {
            "program": program,
            "arguments": arguments,
            "environment": dict(environment),
            "folder": os.getcwd(),
        }
        line.sendall(json.dumps(wanted).encode() + b"\n")
        self.pid = self._number()

    def _number(self) -> int:
        said = self._line.recv(4, socket.MSG_WAITALL)
        assert len(said) == 4, "the parent of warm processes has ended: see above"
        return int.from_bytes(said, "little", signed=True)

    def send_signal(self, which: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end in between
                os.kill(self.pid, which)

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        self.stdin.close()
        with self.stdout as output:
            said = output.read()
        self.wait(timeout)
        return said, None

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            readable = select.select([self._line], [], [], timeout)[0]
            if not readable:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = self._number()
        return self.returncode


def warm_command(*words: str, prefix: Sequence[str] = (), says: int = 2) -> WarmProcess:
    """`overlord` with these words, in a session of its own; `says`: where what it says goes."""
    return WarmProcess(COMMAND, list(words), os.environ, says, prefix=prefix)


def run_warm(
    program: str, arguments: list[str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run(..., capture_output=True, text=True, timeout=timeout)`."""
    with tempfile.TemporaryFile("w+") as errors:
        process = WarmProcess(program, arguments, os.environ, stderr=errors.fileno())
        try:
            process.stdin.close()
            code = process.wait(timeout)
        finally:
            process.kill()
        errors.seek(0)
        with process.stdout as output:
            return subprocess.CompletedProcess(arguments, code, output.read(), errors.read())

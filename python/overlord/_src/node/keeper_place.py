"""Where the keeper of a job under Ray serves the ranks of its own host, found without Ray."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DOOR = "here"  # the socket in it
_ANSWER_SECONDS = 5.0  # from a keeper that lives, on a busy machine
_COMES_AGAIN_SECONDS = 10.0  # for the keeper whose socket is there, and which does not listen
_LOOK_SECONDS = 0.05
_PROOF_BYTES = 16


@dataclass(frozen=True)
class KeeperPlace:
    """Its directory, the same for all that agree on the job.

    A folder that two hosts see does not make them one: ranks are on the keeper's host where a
    descriptor that it passes to them arrives, and what is behind it can be mapped, as batches will
    be.
    """

    path: str

    @classmethod
    def of(cls, key: str, base: Path) -> KeeperPlace:
        """`key` is what the ranks agree on."""
        digest = hashlib.blake2b(f"{key} under ray".encode(), digest_size=8).hexdigest()
        return cls(str(base / f"overlord-{os.geteuid()}-{digest}"))

    def is_here(self) -> bool:
        """Whether the keeper is on this host, found out; waits a while for one that died there."""
        deadline = time.monotonic() + _COMES_AGAIN_SECONDS
        while True:
            try:
                with self._address() as address:
                    return _is_handed_over(address)
            except ConnectionRefusedError:  # it died here, or it listens on another host
                if time.monotonic() > deadline:
                    return False
                time.sleep(_LOOK_SECONDS)
            except OSError:
                return False

    def open_door(self) -> None:
        """Hand a descriptor to whoever calls, while this process lives; the directory is there."""
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        proof = secrets.token_bytes(_PROOF_BYTES)
        memory = os.memfd_create("overlord-here")
        os.write(memory, proof)
        with self._address() as address:
            behind = f"{address}.{os.getpid()}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(behind)
            door.bind(behind)
            door.listen()
            os.replace(behind, address)  # whoever looks finds that of the keeper before, or this

        def serve() -> None:
            while True:
                with contextlib.suppress(OSError), door.accept()[0] as caller:
                    socket.send_fds(caller, [proof], [memory])

        threading.Thread(target=serve, daemon=True).start()

    @contextlib.contextmanager
    def _address(self) -> Iterator[str]:
        """Of the door; fits a socket's address however long the path is."""
        folder = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield f"/proc/self/fd/{folder}/{_DOOR}"
        finally:
            os.close(folder)


def _is_handed_over(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(_ANSWER_SECONDS)
        caller.connect(address)
        proof, descriptors, _, _ = socket.recv_fds(caller, _PROOF_BYTES, 1)
    try:
        for descriptor in descriptors:
            with mmap.mmap(descriptor, _PROOF_BYTES, prot=mmap.PROT_READ) as memory:
                return memory[:] == proof
        return False
    finally:
        for descriptor in descriptors:
            os.close(descriptor)

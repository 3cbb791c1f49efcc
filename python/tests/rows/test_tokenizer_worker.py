"""The tokenizer worker by itself: framing, tokens as the library gives them, ends and errors."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from overlord._src.corpus.words import (
    EOD_TOKEN,
    TOKENIZER_VOCABULARY,
    VOCABULARY,
    tokenizer_json,
)
from overlord._workers.tokenizer_worker import tokenizer_digest, worker_command
from trainers import in_time

LARGEST_ID = max(tokenizers.Tokenizer.from_str(tokenizer_json()).get_vocab().values())
TEXTS = [
    "talo ke. mi",
    "three red circles",  # ids behind a gap
    "",
    "Grüße, 世界 🌍!\n\nx",
    "a" * 5000,
    "<|endoftext|>",
    "\x00\t",
]


class Worker:
    """A worker and the parent's side of the protocol."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [*worker_command(), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin and self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout

    def take(self, size: int) -> bytes:
        data = self.output.read(size)
        assert len(data) == size, self.process.communicate()[1].decode()
        return data

    def text_frame(self) -> tuple[bytes, str]:
        magic, length = self.take(4), struct.unpack("<I", self.take(4))[0]
        return magic, self.take(length).decode()

    def send(self, rows: list[bytes]) -> None:
        ends = np.cumsum([len(row) for row in rows], dtype="<u8")
        self.input.write(
            b"OVTK" + struct.pack("<IQ", len(rows), sum(map(len, rows))) + ends.tobytes()
        )
        self.input.write(b"".join(rows))
        self.input.flush()

    def answer(self) -> list[list[int]]:
        assert self.take(4) == b"OVTR"
        rows, total = struct.unpack("<IQ", self.take(12))
        ends = np.frombuffer(self.take(8 * rows), "<u8")
        tokens = np.frombuffer(self.take(4 * total), "<i4")
        assert rows == 0 or ends[-1] == total
        return [part.tolist() for part in np.split(tokens, ends[:-1])] if rows else []

    def finish(self) -> int:
        self.input.close()
        return self.process.wait()


@pytest.fixture
def tokenizer_path(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json())
    return path


@pytest.fixture
def worker(tokenizer_path: Path) -> Iterator[Worker]:
    worker = Worker(str(tokenizer_path), "0")
    magic, hello = worker.text_frame()
    assert magic == b"OVTH"
    digest = tokenizer_digest(tokenizer_path.read_bytes(), False)
    assert hello.split("\n") == [tokenizers.__version__, digest, str(LARGEST_ID + 1)]
    yield worker
    worker.process.kill()
    worker.process.wait()
    for stream in (worker.output, worker.process.stderr):
        if stream is not None:
            stream.close()


def test_tokens_are_those_of_the_library(worker: Worker, tokenizer_path: Path) -> None:
    library = tokenizers.Tokenizer.from_file(str(tokenizer_path))
    for texts in (TEXTS, TEXTS[::-1], ["talo"] * 300, []):
        worker.send([text.encode() for text in texts])
        expected = [row.ids for row in library.encode_batch(texts, add_special_tokens=False)]
        assert worker.answer() == expected
    assert worker.finish() == 0


def test_special_tokens_and_truncation(tmp_path: Path) -> None:
    library = tokenizers.Tokenizer.from_str(tokenizer_json())
    library.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", EOD_TOKEN)]
    )
    library.enable_truncation(4)  # a tokenizer.json may ask for it; documents must stay whole
    library.enable_padding()
    path = tmp_path / "tokenizer.json"
    library.save(str(path))
    for flag, last in (("0", False), ("1", True)):
        worker = Worker(str(path), flag)
        worker.text_frame()
        worker.send([b"talo ke mi ru vi", b"ke"])
        rows = worker.answer()
        assert [len(row) for row in rows] == [5 + last, 1 + last]
        assert all((row[-1] == EOD_TOKEN) == last for row in rows)
        assert worker.finish() == 0
    assert tokenizer_digest(b"x", True) != tokenizer_digest(b"x", False)


def test_a_bad_row_is_an_error_and_the_worker_lives(worker: Worker) -> None:
    worker.send([b"fine", b"\xff\xfe"])
    magic, message = worker.text_frame()
    assert magic == b"OVTE" and "UnicodeDecodeError" in message
    worker.send([b"talo"])
    assert len(worker.answer()) == 1
    assert worker.finish() == 0


@pytest.mark.parametrize(
    "frame",
    [
        b"XXXX" + bytes(12),
        b"OVTK" + struct.pack("<IQ", 1, 5) + struct.pack("<Q", 9) + b"abcde",
        b"OVTK" + struct.pack("<IQ", 2**31, 0),
    ],
)
def test_broken_framing_ends_it(worker: Worker, frame: bytes) -> None:
    worker.input.write(frame)
    worker.input.flush()
    assert worker.process.wait() == 3


def test_a_truncated_request_ends_it(worker: Worker) -> None:
    worker.input.write(b"OVTK" + struct.pack("<IQ", 1, 100))
    assert worker.finish() == 3


def test_a_missing_or_bad_tokenizer_is_said(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    for path in (bad, tmp_path / "none.json"):
        worker = Worker(str(path), "0")
        magic, message = worker.text_frame()
        assert magic == b"OVTE" and str(path) in message
        assert worker.finish() == 1


def test_ctrl_c_is_for_the_parent(worker: Worker) -> None:
    worker.process.send_signal(signal.SIGINT)
    worker.send([b"talo"])
    assert len(worker.answer()) == 1
    assert worker.finish() == 0


def test_it_dies_with_its_parent(tokenizer_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "read, write = os.pipe()\n"  # its other end stays open: only the signal can end the child
        "os.set_inheritable(write, True)\n"
        "pipe = subprocess.PIPE\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=read, stdout=pipe, close_fds=False)\n"
        "child.stdout.read(4)\n"
        "print(child.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    command = [*worker_command(), str(tokenizer_path), "0"]
    answer = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, check=True)
    pid = int(answer.stdout)
    in_time(lambda: not is_alive(pid), "the worker dies with its parent")


def is_alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


def test_it_does_not_import_the_package(tokenizer_path: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "@atexit.register\n"
        "def report():\n"
        "    ours = ('overlord', 'pyarrow', 'pydantic')\n"
        "    loaded = [m for m in sys.modules if m.split('.')[0] in ours]\n"
        "    sys.stderr.write('LOADED ' + repr(loaded))\n"
    )
    answer = subprocess.run(
        [*worker_command(), str(tokenizer_path), "0"],
        input=b"",
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert b"LOADED []" in answer.stderr


def test_vocabulary_of_the_made_tokenizer() -> None:
    library = tokenizers.Tokenizer.from_str(tokenizer_json())
    assert library.get_vocab_size() <= VOCABULARY <= LARGEST_ID < TOKENIZER_VOCABULARY
    assert library.token_to_id("<|endoftext|>") == EOD_TOKEN

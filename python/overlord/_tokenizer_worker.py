"""Tokenizer worker: text in on stdin, tokens out on stdout, in a process of its own.

Run as a script, `python _tokenizer_worker.py TOKENIZER_JSON 0|1` (1: add special tokens), so that
the package is not imported. All numbers are little-endian.

  hello   'OVTH' u32 length, JSON {version, digest, vocab_size}; written once, before anything else
  request 'OVTK' u32 rows, u64 bytes, u64 ends[rows], UTF-8 text of all rows
  answer  'OVTR' u32 rows, u64 tokens, u64 ends[rows], i32 tokens[]
  error   'OVTE' u32 length, UTF-8 message; of the request, or instead of the hello

It ends at the end of its input. Ctrl-C is for the parent to decide on; it dies with its parent.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import signal
import struct
import sys
from array import array
from collections.abc import Callable
from typing import Any, BinaryIO

HELLO = b"OVTH"
REQUEST = b"OVTK"
ANSWER = b"OVTR"
ERROR = b"OVTE"
MAX_ROWS = 1 << 24
MAX_BYTES = 1 << 32
MAX_MESSAGE = 16_384


class FramingError(Exception):
    """The peer does not speak this protocol; there is no way to go on."""


def tokenizer_digest(content: bytes, add_special_tokens: bool) -> str:
    """32 hex digits that stand for a tokenizer: its file's content and the options in use."""
    options = b"overlord-tokenizer/1 add_special_tokens=%d\0" % add_special_tokens
    return hashlib.sha256(options + content).hexdigest()[:32]


def worker_command() -> list[str]:
    """The command that starts a worker; the tokenizer's path and 0 or 1 are added to it."""
    return [sys.executable, os.path.abspath(__file__)]


def _take(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise FramingError(f"the input ended after {len(data)} of {size} bytes")
    return data


def _little(values: array[Any]) -> array[Any]:
    if sys.byteorder == "big":
        values.byteswap()
    return values


def read_request(stream: BinaryIO) -> list[str] | None:
    """The rows of the next request; None at the end of the input. Raises ValueError on bad rows."""
    magic = stream.read(4)
    if not magic:
        return None
    if magic != REQUEST:
        raise FramingError(f"a request starts with {REQUEST!r}, got {magic!r}")
    rows, size = struct.unpack("<IQ", _take(stream, 12))
    if rows > MAX_ROWS or size > MAX_BYTES:
        raise FramingError(f"a request of {rows} rows and {size} bytes is over the limits")
    ends = array("Q")
    ends.frombytes(_take(stream, 8 * rows))
    text = _take(stream, size)
    begin, texts = 0, []
    for row, end in enumerate(_little(ends)):
        if end < begin or end > size:
            raise FramingError(f"row {row} ends at {end}, outside {begin} to {size}")
        texts.append(text[begin:end].decode())
        begin = end
    if begin != size:
        raise FramingError(f"{size - begin} bytes belong to no row")
    return texts


def write_answer(stream: BinaryIO, rows: list[list[int]]) -> None:
    """One frame with the tokens of every row."""
    ends = array("Q", itertools.accumulate(map(len, rows)))
    tokens = array("i", itertools.chain.from_iterable(rows))
    stream.write(ANSWER + struct.pack("<IQ", len(rows), len(tokens)))
    stream.write(_little(ends).tobytes())
    stream.write(_little(tokens).tobytes())
    stream.flush()


def write_text(stream: BinaryIO, magic: bytes, text: str) -> None:
    """A hello or an error frame."""
    data = text.encode(errors="replace")[:MAX_MESSAGE]
    stream.write(magic + struct.pack("<I", len(data)) + data)
    stream.flush()


def load_encoder(
    path: str, add_special_tokens: bool
) -> tuple[Callable[[list[str]], list[list[int]]], str]:
    """A function from texts to token ids, and the hello's JSON."""
    import tokenizers

    with open(path, "rb") as file:
        content = file.read()
    tokenizer = tokenizers.Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    encode_batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)

    def encode(texts: list[str]) -> list[list[int]]:
        encoded = encode_batch(texts, add_special_tokens=add_special_tokens)
        return [row.ids for row in encoded]

    # Ids may have gaps, so their number says less than the largest.
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    hello = {
        "version": tokenizers.__version__,
        "digest": tokenizer_digest(content, add_special_tokens),
        "vocab_size": max(vocabulary.values(), default=-1) + 1,
    }
    return encode, json.dumps(hello)


def serve(source: BinaryIO, sink: BinaryIO, encode: Callable[[list[str]], list[list[int]]]) -> None:
    """Answer requests until the input ends. A request that fails is answered with its error."""
    while True:
        try:
            texts = read_request(source)
            if texts is None:
                return
            rows = encode(texts)
        except FramingError:
            raise
        except BaseException as error:
            # Also what the tokenizer's native code raises as a panic, which is no Exception.
            write_text(sink, ERROR, f"{type(error).__name__}: {error}")
        else:
            write_answer(sink, rows)


def die_with_parent() -> None:
    """Ask the kernel to end this process when the one that started it is gone."""
    import ctypes

    pr_set_pdeathsig = 1
    with contextlib.suppress(OSError, AttributeError):  # elsewhere the end of the input ends it
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def private_stdout() -> BinaryIO:
    """The answer channel; prints of any library go to stderr instead of into it."""
    channel = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(channel, "wb", buffering=1 << 20)


def main(arguments: list[str]) -> int:
    """Run a worker over stdin and stdout; the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["RAYON_NUM_THREADS"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    die_with_parent()
    if len(arguments) != 2 or arguments[1] not in ("0", "1"):
        print("usage: _tokenizer_worker.py TOKENIZER_JSON 0|1", file=sys.stderr)
        return 2
    source, sink = os.fdopen(os.dup(0), "rb", buffering=1 << 20), private_stdout()
    try:
        encode, hello = load_encoder(arguments[0], arguments[1] == "1")
    except Exception as error:
        write_text(sink, ERROR, f"{arguments[0]}: {type(error).__name__}: {error}")
        return 1
    try:
        write_text(sink, HELLO, hello)
        serve(source, sink, encode)
    except BrokenPipeError:
        return 0  # the parent is gone
    except FramingError as error:
        print(f"tokenizer worker: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    # As a script, our own folder is first on the path and would hide other packages' modules.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    sys.exit(main(sys.argv[1:]))

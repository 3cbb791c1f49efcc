"""Tokenizer worker: text in on stdin, tokens out on stdout, in a process of its own.

Run as a script, `python tokenizer_worker.py TOKENIZER_JSON 0|1 [CHAT]` (1: add special tokens), so
that the package is not imported. CHAT is the settings of chat_template.py: then rows are
conversations, and answers say which tokens carry loss. All numbers are little-endian.

  hello   'OVTH' u32 length, three lines: version, digest, vocab_size; once, before anything else
  request 'OVTK' u32 rows, u64 bytes, u64 ends[rows], UTF-8 text of all rows
  answer  'OVTR' u32 rows, u64 tokens, u64 ends[rows], i32 tokens[]
  masked  'OVTM' as an answer, then u8 mask[tokens], u32 length, and in so many bytes the rows that
          have no tokens: u32 row, u32 length, UTF-8 reason; the answer of a worker with CHAT
  progress 'OVTP' u32 rows done; before a masked answer
  error   'OVTE' u32 length, UTF-8 message; of the request, or instead of the hello

It ends at the end of its input. Ctrl-C is for the parent to decide on; it dies with its parent.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import itertools
import os
import signal
import struct
import sys
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

HELLO = b"OVTH"
REQUEST = b"OVTK"
ANSWER = b"OVTR"
MASKED = b"OVTM"
PROGRESS = b"OVTP"
ERROR = b"OVTE"
CHAT_ROWS = 64  # rendered and encoded at once
MAX_REASON = 4096
MAX_ROWS = 1 << 24
MAX_BYTES = 1 << 32
MAX_MESSAGE = 16_384


class FramingError(Exception):
    """The peer does not speak this protocol; there is no way to go on."""


def tokenizer_digest(content: bytes, add_special_tokens: bool, chat: str = "") -> str:
    """32 hex digits that stand for a tokenizer: its file's content and the options in use."""
    options = b"overlord-tokenizer/1 add_special_tokens=%d\0" % add_special_tokens
    if chat:
        options += b"chat/1 " + hashlib.sha256(chat.encode()).digest() + b"\0"
    return hashlib.sha256(options + content).hexdigest()[:32]


def worker_command() -> list[str]:
    """The command that starts a worker; the tokenizer's path and options are added to it."""
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


Encode = Callable[[list[str], BinaryIO], None]  # rows of a request to the frame of their answer


def _chat_template() -> ModuleType:
    """The module beside this file; the package it belongs to is not imported by a worker."""
    if __package__:
        from overlord._workers import chat_template

        return chat_template
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_template.py")
    spec = importlib.util.spec_from_file_location("chat_template", place)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {place}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _ChatAnswer:
    """Tokens and masks of the rows of one request, as they come."""

    def __init__(self) -> None:
        self.ends, self.tokens, self.mask = array("Q"), array("i"), bytearray()
        self.bad = bytearray()

    def add(self, tokens: list[int], mask: bytearray) -> None:
        self.tokens.extend(tokens)
        self.mask += mask
        self.ends.append(len(self.tokens))

    def refuse(self, reason: str) -> None:
        data = reason.encode(errors="replace")[:MAX_REASON]
        data = data.decode(errors="ignore").encode()  # a character that was cut is left out
        self.bad += struct.pack("<II", len(self.ends), len(data)) + data
        self.ends.append(len(self.tokens))

    def write(self, stream: BinaryIO) -> None:
        stream.write(MASKED + struct.pack("<IQ", len(self.ends), len(self.tokens)))
        stream.write(_little(self.ends).tobytes())
        stream.write(_little(self.tokens).tobytes())
        stream.write(self.mask + struct.pack("<I", len(self.bad)) + self.bad)
        stream.flush()


def chat_encoder(tokenizer: Any, settings: str) -> Encode:
    """A function from conversations to the frame with their tokens and masks."""
    chat = _chat_template()
    renderer = chat.ChatRenderer(settings)

    def rendered(row: str) -> Any:
        if not row:  # bad already, and named by who found it
            return None
        try:
            return renderer.render(row)
        except chat.RowError as error:
            return error

    def add(answer: _ChatAnswer, row: str, made: Any, encoding: Any) -> None:
        tokens = encoding.ids
        if made is None:
            answer.add([], bytearray())
        elif isinstance(made, chat.RowError):
            answer.refuse(str(made))
        elif len(tokens) > 16 * len(row) + 64 + len(settings):
            answer.refuse(f"the template makes {len(tokens)} tokens of {len(row)} characters")
        else:
            answer.add(tokens, chat.token_mask(encoding.offsets, made[1]))

    def encode(rows: list[str], sink: BinaryIO) -> None:
        answer = _ChatAnswer()
        for first in range(0, len(rows), CHAT_ROWS):
            batch = rows[first : first + CHAT_ROWS]
            made = [rendered(row) for row in batch]
            texts = [one[0] if isinstance(one, tuple) else "" for one in made]
            encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
            for row, one, encoding in zip(batch, made, encoded, strict=True):
                add(answer, row, one, encoding)
            sink.write(PROGRESS + struct.pack("<I", len(answer.ends)))
            sink.flush()
        answer.write(sink)

    return encode


def load_encoder(path: str, add_special_tokens: bool, chat: str = "") -> tuple[Encode, str]:
    """A function that answers requests, and the hello."""
    import tokenizers

    with open(path, "rb") as file:
        content = file.read()
    tokenizer = tokenizers.Tokenizer.from_buffer(content)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    # Ids may have gaps, so their number says less than the largest.
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    digest = tokenizer_digest(content, add_special_tokens, chat)
    size = max(vocabulary.values(), default=-1) + 1
    hello = f"{tokenizers.__version__}\n{digest}\n{size}"
    if chat:
        return chat_encoder(tokenizer, chat), hello
    encode_batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)

    def encode(texts: list[str], sink: BinaryIO) -> None:
        encoded = encode_batch(texts, add_special_tokens=add_special_tokens)
        write_answer(sink, [row.ids for row in encoded])

    return encode, hello


def serve(source: BinaryIO, sink: BinaryIO, encode: Encode) -> None:
    """Answer requests until the input ends. A request that fails is answered with its error."""
    while True:
        try:
            texts = read_request(source)
            if texts is None:
                return
            encode(texts, sink)
        except (FramingError, BrokenPipeError):
            raise
        except BaseException as error:
            # Also what the tokenizer's native code raises as a panic, which is no Exception.
            write_text(sink, ERROR, f"{type(error).__name__}: {error}")


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
    if len(arguments) not in (2, 3) or arguments[1] not in ("0", "1"):
        print("usage: tokenizer_worker.py TOKENIZER_JSON 0|1 [CHAT]", file=sys.stderr)
        return 2
    source, sink = os.fdopen(os.dup(0), "rb", buffering=1 << 20), private_stdout()
    try:
        encode, hello = load_encoder(arguments[0], arguments[1] == "1", *arguments[2:])
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

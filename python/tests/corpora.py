"""Small corpora in every format, written by the rules of the formats, and configs over them."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zstandard

Tokens = npt.NDArray[np.int64]
VOCABULARY = 1000
EOD = 999
BOS = 998
PAD = 0
FIRST_TOKEN = 1  # so that padding never looks like a document
MEGATRON_CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}


def made_up_documents(
    count: int, seed: int = 0, longest: int = 60, vocabulary: int = VOCABULARY - 10
) -> list[Tokens]:
    """Documents of random tokens and skewed lengths; longer ones than a few tokens are unique."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(2.5, 0.8, count).astype(np.int64), 1, longest)
    return [rng.integers(FIRST_TOKEN, vocabulary, length) for length in lengths]


def made_up_texts(count: int, seed: int = 0, longest: int = 12) -> list[str]:
    """Sentences of made-up words, some with letters of more than one byte."""
    rng = np.random.default_rng(seed)
    words = ["data", "plane", "rank", "größe", "шаг", "学习", "a", "stream", "\u2028x", "🙂", "of"]
    return [
        " ".join(words[i] for i in rng.integers(0, len(words), rng.integers(1, longest))) + f" {n}"
        for n in range(count)
    ]


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """One JSON object per line."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def token_lines(documents: Iterable[Tokens], column: str = "tokens") -> bytes:
    """Documents as JSON lines with a list of token ids."""
    return json_lines({column: document.tolist()} for document in documents)


def gzip_members(parts: Sequence[bytes], level: int = 6) -> bytes:
    """A gzip file of one member per part; the same bytes at any time of the day."""
    return b"".join(gzip.compress(part, level, mtime=0) for part in parts)


def zstd_frames(parts: Sequence[bytes], level: int = 3, sized: bool = True) -> bytes:
    """A zstd file of one frame per part; `sized`: the frames tell their size."""
    compressor = zstandard.ZstdCompressor(
        level=level, write_content_size=sized, write_checksum=True
    )
    if sized:
        return b"".join(compressor.compress(part) for part in parts)
    out = io.BytesIO()
    for part in parts:
        with compressor.stream_writer(out, closefd=False) as writer:
            writer.write(part)
    return out.getvalue()


def cut(data: bytes, parts: int) -> list[bytes]:
    """The bytes in pieces of about the same size, cut without a look at lines."""
    step = max(1, -(-len(data) // parts))
    return [data[begin : begin + step] for begin in range(0, len(data), step)]


def write_megatron(prefix: Path, documents: Sequence[Sequence[Tokens]], dtype: str) -> Path:
    """A .bin/.idx pair by Megatron's layout; a document is a list of sequences. Gives the .bin."""
    sequences = [np.asarray(part, dtype) for document in documents for part in document]
    lengths = np.array([len(part) for part in sequences], np.int32)
    ends = np.cumsum(lengths.astype(np.int64)) * np.dtype(dtype).itemsize
    pointers = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(sequences)]
    boundaries = np.cumsum([0, *(len(document) for document in documents)]).astype(np.int64)
    header = b"MMIDIDX\x00\x00" + struct.pack("<QB", 1, MEGATRON_CODES[dtype])
    header += struct.pack("<QQ", len(sequences), len(boundaries))
    binary = prefix.with_name(prefix.name + ".bin")
    binary.write_bytes(b"".join(part.tobytes() for part in sequences))
    index = prefix.with_name(prefix.name + ".idx")
    index.write_bytes(header + lengths.tobytes() + pointers.tobytes() + boundaries.tobytes())
    return binary


def train_tokenizer(path: Path, texts: Sequence[str]) -> Any:
    """A tiny byte-level BPE with special tokens that it can put around a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.save(str(path))
    return tokenizer


def job_config(
    folder: Path, sources: Mapping[str, Mapping[str, Any]], **top: Any
) -> dict[str, Any]:
    """A config over sources whose files lie in `folder`; `top` replaces top-level keys."""
    lowered = {}
    for name, source in sources.items():
        files = source["files"]
        listed = [files] if isinstance(files, str) else list(files)
        lowered[name] = {**source, "files": [os.path.join(folder, file) for file in listed]}
    return {
        "job": "test",
        "seed": 7,
        "context": 64,
        "bins": 4,
        "vocabulary": VOCABULARY,
        "pad_token": PAD,
        "at_end": "stop",
        "index_dir": str(folder / "index"),
        "mixture": {"weights": dict.fromkeys(sources, 1)},
        "sources": lowered,
        **top,
    }


def index_file(folder: Path, name: str) -> Path:
    """The only index of a source in a folder."""
    [path] = folder.glob(f"{name}-*.index")
    return path


@dataclass
class Corpus:
    """Files on disk, the config over them, and the documents that must come out."""

    folder: Path
    sources: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[str, list[Tokens]] = field(default_factory=dict)

    def add_jsonl(self, name: str, documents: Sequence[Tokens], **source: Any) -> None:
        """A source of ready tokens in a JSONL file."""
        (self.folder / f"{name}.jsonl").write_bytes(token_lines(documents))
        self.sources[name] = {"files": f"{name}.jsonl", "tokens": "tokens", **source}
        self.documents[name] = list(documents)

    def add_megatron(
        self, name: str, documents: Sequence[Tokens], shards: int = 2, **source: Any
    ) -> None:
        """A source of .bin/.idx files."""
        per_shard = -(-len(documents) // shards)
        for shard in range(shards):
            part = documents[shard * per_shard : (shard + 1) * per_shard]
            write_megatron(self.folder / f"{name}-{shard}", [[item] for item in part], "uint16")
        self.sources[name] = {"files": f"{name}-*.bin", **source}
        self.documents[name] = list(documents)

    def config(self, **top: Any) -> dict[str, Any]:
        """The job over all sources."""
        return job_config(self.folder, self.sources, **top)

    def whole(self, name: str) -> list[Tokens]:
        """The documents of a source with the special tokens around them."""
        return [with_specials(item, self.sources[name]) for item in self.documents[name]]


def with_specials(raw: Tokens, source: Mapping[str, Any]) -> Tokens:
    """A document as it is delivered: bos, its tokens, eod."""
    parts = [
        [source["bos"]] if "bos" in source else [],
        raw,
        [source["eod"]] if "eod" in source else [],
    ]
    return np.concatenate([np.asarray(part, np.int64) for part in parts])


def two_sources(folder: Path, rows: int = 300) -> Corpus:
    """A JSONL and a Megatron source of ready tokens, with end-of-document tokens."""
    corpus = Corpus(folder)
    corpus.add_jsonl("web", made_up_documents(rows, seed=1), eod=EOD)
    corpus.add_megatron("code", made_up_documents(rows // 2, seed=2, longest=90), eod=EOD, bos=BOS)
    return corpus

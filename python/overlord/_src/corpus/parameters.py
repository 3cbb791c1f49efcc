"""Parameters of the generated corpora, in one place, so that measured values can replace them.

Lengths are log-normal in tokens. Means come from published corpora (COYO captions, FineWeb, the
Pile at 4.3 bytes a token); every sigma but that of the captions is an assumption.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import exp, log
from typing import Literal

Kind = Literal[
    "parquet_text",
    "parquet_tokens",
    "jsonl",
    "jsonl_gz",
    "jsonl_zst",
    "megatron",
    "pairs",  # drawings with captions in a tar
    "sounds",  # clips with captions in a tar
    "interleaved",  # drawings inside texts, Parquet lists
]
KIB = 1024
BYTES_PER_TOKEN = 4.3


@dataclass(frozen=True)
class Lengths:
    """Log-normal document lengths in tokens, clipped."""

    mu: float
    sigma: float
    least: int = 1
    most: int = 2**31 - 1

    @property
    def mean(self) -> float:
        """The mean before clipping."""
        return exp(self.mu + self.sigma**2 / 2)


def lengths_of(mean: float, sigma: float, least: int = 8, most: int = 2**31 - 1) -> Lengths:
    """Lengths with this mean in tokens."""
    return Lengths(log(mean) - sigma**2 / 2, sigma, least, most)


def pile(kib: float, sigma: float) -> Lengths:
    """Lengths with the mean document size of a row of the Pile's table."""
    return lengths_of(kib * KIB / BYTES_PER_TOKEN, sigma)


CAPTIONS = Lengths(2.558, 0.761, 3, 1523)
WEB = lengths_of(700, 1.0)
CODE = pile(5.25, 1.2)
FORUM = pile(2.16, 0.9)
LAW = pile(15.1, 1.0)
PAPERS = pile(46.6, 0.8)
BOOKS = pile(538.4, 0.7)
ILLUSTRATED = lengths_of(160, 0.6, 16, 1200)  # OBELICS has 816 on average; here they stay short


@dataclass(frozen=True)
class SourceShape:
    """One generated source: its format, its lengths, how many documents in how many files."""

    name: str
    kind: Kind
    lengths: Lengths
    documents: int
    shards: int
    token_type: Literal["int32", "uint16"] = "int32"
    mask: bool = False  # a loss mask beside the tokens: the first third of a document carries none
    row_group: int = 1000
    mark: str = "."  # ends a sentence of generated text


@dataclass(frozen=True)
class CorpusParameters:
    """A whole corpus; the digest of this decides whether files on disk are still good."""

    seed: int
    sources: tuple[SourceShape, ...]
    version: int = 1

    def as_data(self) -> dict[str, object]:
        """Plain data, for the marker file."""
        return asdict(self)

    def source(self, name: str) -> SourceShape:
        """The source of this name."""
        return next(source for source in self.sources if source.name == name)


DEMO = CorpusParameters(
    seed=20250414,
    sources=(
        SourceShape("web", "parquet_text", WEB, 12_000, 4, row_group=250),
        SourceShape("code", "jsonl_zst", CODE, 3_000, 2, mark=";"),
        SourceShape("forum", "jsonl", FORUM, 4_000, 2),
        SourceShape("papers", "jsonl_gz", PAPERS, 300, 2),
        SourceShape("chat", "parquet_tokens", FORUM, 6_000, 2, "int32", mask=True),
        SourceShape("captions", "parquet_tokens", CAPTIONS, 400_000, 2, "uint16", row_group=20_000),
        SourceShape("law", "megatron", LAW, 1_200, 2, "int32"),
        # Cut at chapters: a whole book would fill several of the small steps of the demo alone.
        SourceShape("books", "megatron", pile(60.0, 0.7), 700, 2, "uint16"),
        SourceShape("drawings", "pairs", CAPTIONS, 400, 2),
        SourceShape("tunes", "sounds", CAPTIONS, 120, 2),
        SourceShape("guides", "interleaved", ILLUSTRATED, 100, 2, row_group=20),
    ),
)

STARTER = CorpusParameters(
    seed=1,
    sources=(
        SourceShape("web", "parquet_text", WEB, 600, 2, row_group=100),
        SourceShape("forum", "jsonl_gz", FORUM, 300, 1),
        SourceShape("code", "megatron", replace(CODE, most=20_000), 200, 1, "uint16"),
    ),
)

"""Configs and small corpora that the tests of the Python face start from."""

from __future__ import annotations

import copy
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from overlord._src.corpus import STARTER, CorpusParameters, ensure_corpus
from overlord._src.corpus.config_text import starter_config

# A shell that runs the tests in the background has them ignore Ctrl-C, and so would every process
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOOD: dict[str, Any] = {
    "job": "demo",
    "seed": 7,
    "context": 64,
    "bins": 8,
    "vocabulary": 32000,
    "at_end": "repeat",
    "mixture": {"weights": {"web": 0.6, "code": 0.4}},
    "tokenizers": {"bpe": {"path": "tok.json"}},
    "sources": {
        "web": {"files": "data/web/*.parquet", "text": "text", "tokenizer": "bpe"},
        "code": {"files": "data/code/*.bin"},
    },
}
SMALL: CorpusParameters = replace(
    STARTER,
    sources=tuple(replace(source, documents=source.documents // 2) for source in STARTER.sources),
)


@pytest.fixture
def good() -> dict[str, Any]:
    """A config that is fine."""
    return copy.deepcopy(GOOD)


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes bytes or text to a config file and gives its path."""

    def write_file(content: str | bytes, name: str = "mix.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture(scope="session")
def corpus() -> CorpusParameters:
    """The parameters of the starter's corpus."""
    return SMALL


@pytest.fixture(scope="session")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config that `overlord init` writes, over a small corpus; indexed when first used."""
    folder = tmp_path_factory.mktemp("starter")
    ensure_corpus(folder / "data", SMALL)
    config = folder / "mix.yaml"
    config.write_text(starter_config())
    return config


DEADLINE_SECONDS = 60


@pytest.fixture(autouse=True)
def deadline(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that hangs fails. The engine looks for signals while it waits."""
    if request.node.get_closest_marker("soak") or request.node.get_closest_marker("chaos"):
        yield
        return
    marker = request.node.get_closest_marker("deadline")
    seconds = DEADLINE_SECONDS if marker is None else marker.args[0]

    def too_late(*_: object) -> None:
        raise TimeoutError(f"the test took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)

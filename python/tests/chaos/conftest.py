"""What the tests of chaos start from."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from overlord._src.corpus import STARTER, ensure_corpus
from overlord._src.corpus.config_text import starter_config

sys.path.insert(0, str(Path(__file__).parent))
from faults import small_disk
from jobs import ROWS, Job


@pytest.fixture(scope="session")
def long_starter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter's corpus with so much text that tokenizers are asked for long."""
    folder = tmp_path_factory.mktemp("corpus")
    web, *others = STARTER.sources
    web = replace(web, documents=4000, row_group=ROWS)
    ensure_corpus(folder / "data", replace(STARTER, sources=(web, *others)))
    config = folder / "mix.yaml"
    config.write_text(starter_config())
    return config


@pytest.fixture
def job(long_starter: Path, tmp_path: Path) -> Job:
    return Job(long_starter, tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path | None]:
    """A small one for a journal; none where nothing may be mounted."""
    with contextlib.ExitStack() as stack:
        made = None
        with contextlib.suppress(OSError):
            made = stack.enter_context(small_disk(tmp_path / "disk"))
        yield made

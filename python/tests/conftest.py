"""Configs and small corpora that the tests of the Python face start from."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from namespaces import ADDRESSES, run
from overlord._src.corpus import STARTER, CorpusParameters, ensure_corpus
from overlord._src.corpus.config_text import starter_config

from overlord import _core as core

# A shell that runs the tests in the background has them ignore Ctrl-C, nohup that the terminal is
# gone, and so would every process that they start and signal.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

TESTS = Path(__file__).resolve().parent
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
ABSENT = [codec["name"] for codec in core.media_codecs() if not codec["present"]]


def skip_what_needs_a_codec(outcome: Any) -> None:
    """A test that ends because this build has no codec for its media is skipped by that reason."""
    said = "" if outcome.excinfo is None else str(outcome.excinfo[1])
    if ABSENT and "this build reads no" in said:
        line = next(line for line in said.splitlines() if "this build reads no" in line)
        outcome.force_exception(pytest.skip.Exception(line[:200]))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Fixtures that need a codec."""
    skip_what_needs_a_codec((yield))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Tests that need a codec."""
    skip_what_needs_a_codec((yield))


# What a test that starts processes or threads names somewhere on its way: a module, the engine that
# has processes, functions of users that run in workers.
STARTERS = {"subprocess", "threading", "fork"}
STARTED = ("processes", "own_transforms:", "own_media:", "own_batch_transforms:")


def starts_processes(function: Any, known: dict[Any, bool]) -> bool:
    """Whether a function of the tests, or one that it calls, starts processes or threads."""
    function = inspect.unwrap(function)
    if inspect.isclass(function):
        return any(starts_processes(item, known) for item in vars(function).values())
    if not inspect.isfunction(function):
        return False
    if function not in known:
        known[function] = False  # one that calls itself does not because of that
        known[function] = _names_a_start(function, known)
    return known[function]


def _names_a_start(function: Any, known: dict[Any, bool]) -> bool:
    if TESTS not in Path(function.__code__.co_filename).parents:
        return False
    codes = [function.__code__]
    for code in codes:  # and those inside of it
        codes += [item for item in code.co_consts if inspect.iscode(item)]
        texts = [item for item in code.co_consts if isinstance(item, str)]
        if STARTERS & set(code.co_names) or any(text.startswith(STARTED) for text in texts):
            return True
    names = {name for code in codes for name in code.co_names}
    return any(starts_processes(function.__globals__.get(name), known) for name in names)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that `make flaky` runs, and has those begin that share a cluster of Ray's.

    Workers that have nothing left to do take tests from the end of what another one has, and each
    would start a cluster of its own for them.
    """
    items.sort(key=lambda item: "cluster" not in getattr(item, "fixturenames", ()))
    known: dict[Any, bool] = {}
    for item in items:
        fixtures = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
        functions = [item.function, *(each.func for all in fixtures.values() for each in all)]  # type: ignore[attr-defined]
        given = getattr(item, "callspec", None)
        if (given is not None and "processes" in map(str, given.params.values())) or any(
            starts_processes(function, known) for function in functions
        ):
            item.add_marker(pytest.mark.processes)


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


# Of a whole test, on a busy machine too. What a test starts and waits for needs no deadline of its
# own: this one ends it.
DEADLINE_SECONDS = 280


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


@pytest.fixture
def free_port() -> int:
    """A TCP port that nobody uses, and that the kernel gives to nobody who asks for any."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate for all hosts, signed by an authority of its own, and a token."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make certificates with")
    folder = tmp_path_factory.mktemp("secrets")
    names = ",".join(f"IP:{address}" for address in ("127.0.0.1", *ADDRESSES))
    (folder / "names").write_text(f"subjectAltName={names}\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    make = ["openssl", "req", "-x509", *key, "-days", "2"]
    run(*make, "-keyout", f"{folder}/ca.key", "-out", f"{folder}/ca.pem", "-subj", "/CN=test ca")
    request = ["openssl", "req", *key, "-subj", "/CN=overlord"]
    run(*request, "-keyout", f"{folder}/key.pem", "-out", f"{folder}/csr.pem")
    sign = ["openssl", "x509", "-req", "-in", f"{folder}/csr.pem", "-days", "2", "-CAcreateserial"]
    sign += ["-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key"]
    run(*sign, "-extfile", f"{folder}/names", "-out", f"{folder}/cert.pem")
    (folder / "token").write_text("a secret of the job\n")
    for name in ("key.pem", "token"):
        (folder / name).chmod(0o600)
    return {
        "certificate": f"{folder}/cert.pem",
        "key": f"{folder}/key.pem",
        "authority": f"{folder}/ca.pem",
        "token": f"file:{folder}/token",
    }


@pytest.fixture
def sockets(tmp_path: Path) -> Path:
    """Where the nodes of a test have their directories."""
    folder = tmp_path / "sockets"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def config(tmp_path: Path, sockets: Path) -> dict[str, Any]:
    """A job of three small sources whose nodes meet under `sockets`."""
    dice = np.random.default_rng(3)
    sources = {}
    for name, documents in (("books", 200), ("code", 500), ("web", 900)):
        tokens = [dice.integers(1, 1000, dice.integers(5, 200)) for _ in range(documents)]
        table = pa.table({"tokens": pa.array(tokens, pa.list_(pa.int32()))})
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=100)
        sources[name] = {"files": str(tmp_path / f"{name}.parquet"), "tokens": "tokens"}
    return {
        "job": "processes",
        "seed": 5,
        "context": 256,
        "bins": 16,
        "steps": 12,
        "vocabulary": 1000,
        "at_end": "repeat",
        "index_dir": str(tmp_path / "index"),
        "mixture": {"weights": {"books": 0.2, "code": 0.3, "web": 0.5}},
        "sources": sources,
        "runtime": {"processes": {"directory": str(sockets)}},
    }

"""The docs name only what exists: files, links, tests, commands, keys, defaults; and say how each
config key counts."""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import re
from pathlib import Path
from typing import Any

import config_reference
import pytest
from overlord.cli import COMMANDS, _module

import overlord as ol

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "src/overlord/**/*.md")
    for path in ROOT.glob(pattern)
)
SUFFIXES = (".cc", ".h", ".py", ".md", ".sh", ".cmake", ".svg", ".toml")
HOMES = ("", "src/overlord", "python/overlord", "src/overlord/columnar")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CPP_TEST = re.compile(r"^[A-Z]\w+\.[A-Z]\w+$")
PYTHON_TEST = re.compile(r"^test_\w+$")


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def codes(page: Path) -> list[str]:
    """What stands in backticks in a page's prose."""
    return CODE.findall(prose(page))


def looks_like_a_path(word: str) -> bool:
    """A file of this repository: it has a suffix of ours, or begins with a folder of ours."""
    if " " in word or "://" in word or word.startswith(("/", "~", "-", "my/", "demo/")):
        return False
    folders = ("src/", "python/", "tests/", "tools/", "docs/", "cmake/", ".ci/")
    return word.startswith(folders) or (word.endswith(SUFFIXES) and "/" in word)


def exists(word: str, page: Path) -> bool:
    """Whether a path is there: from the root, a folder that pages leave out, or the page itself."""
    folders = [*(ROOT / home for home in HOMES), page.parent]
    if "*" in word:
        return any(any(folder.glob(word)) for folder in folders)
    return any((folder / word).exists() for folder in folders)


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = [word for word in codes(page) if looks_like_a_path(word)]
    missing = [word for word in named if not exists(word, page)]
    assert not missing


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        for title in HEADING.findall(prose(page))
    }


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page_name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page_name(page)} links to {target}"


@pytest.fixture(scope="module")
def tests_of_the_house() -> set[str]:
    """Names of all tests: Suite.Case in C++, test_x in Python."""
    names: set[str] = set()
    folders = ("src/overlord/**/*_test.cc", "tests/**/*.cc", "benchmarks/native/*_test.cc")
    for file in (file for folder in folders for file in ROOT.glob(folder)):
        found = re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE)
        names |= {f"{suite}.{case}" for suite, case in found}
    for file in [*ROOT.glob("python/tests/**/*.py"), *ROOT.glob("tests/*.py")]:
        names |= set(re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE))
    return names


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_tests_that_are_named_exist(page: Path, tests_of_the_house: set[str]) -> None:
    named = {word for word in codes(page) if CPP_TEST.match(word) or PYTHON_TEST.match(word)}
    assert named <= tests_of_the_house


def test_the_readme_tests_as_ci_does() -> None:
    command = (ROOT / ".ci/run").read_text().strip().splitlines()[-1]
    assert command == "exec make test"
    assert "\n```\nmake test\n```\n" in (ROOT / "README.md").read_text()


def test_every_room_is_in_the_readme() -> None:
    table = (ROOT / "README.md").read_text()
    rooms = re.findall(
        r"^overlord_library\(([\w/]+)", (ROOT / "cmake/rooms.cmake").read_text(), re.M
    )
    folders = {room.split("/")[0] for room in rooms}
    assert rooms and all(f"`src/overlord/{folder}`" in table for folder in folders)
    roles = [room for room in rooms if room.startswith("roles/")]
    assert all(f"src/overlord/{role}/README.md" in table for role in roles)


def test_every_check_of_the_house_is_in_the_style_guide() -> None:
    checks = re.findall(r"^def (check_\w+)", (ROOT / "tools/rooms.py").read_text(), re.MULTILINE)
    page = (ROOT / "docs/style.md").read_text()
    assert [name for name in checks if f"`{name}`" not in page] == ["check_tree"]


def test_every_command_and_error_has_its_line() -> None:
    commands = (ROOT / "docs/reference/cli.md").read_text()
    assert all(f"`overlord {name}" in commands for name in COMMANDS)
    errors = (ROOT / "docs/reference/errors.md").read_text()
    assert all(f"ol.{name}`" in errors for name in (*ol._ERRORS, "ConfigError"))


NAMED_COMMAND = re.compile(r"(?<![\w-] )(?<![\w-])overlord ([a-z]+)\b([^`|#\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(command: str) -> dict[str, Any]:
    """A command's options and their defaults."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--traceback")
    _module(command).add_arguments(parser)
    known = {word: action.default for action in parser._actions for word in action.option_strings}
    for action in parser._actions:  # commands of a command
        for further in (getattr(action, "choices", None) or {}) if action.nargs == "A..." else ():
            known |= {
                word: inner.default
                for inner in action.choices[further]._actions
                for word in inner.option_strings
            }
    return known


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_that_are_named_exist(page: Path) -> None:
    text = page.read_text()
    spans = [*CODE.findall(prose(page)), *FENCE.findall(text), *re.findall(r"^    .*", text, re.M)]
    for command, rest in (found for span in spans for found in NAMED_COMMAND.findall(span)):
        assert command in COMMANDS, f"`overlord {command}`"
        if command != "bench":  # whose further words are the benchmark's own
            assert set(OPTION.findall(rest)) <= set(options_of(command)), f"{command} {rest}"


def test_options_and_their_defaults_are_those_of_the_commands() -> None:
    text = (ROOT / "docs/reference/cli.md").read_text()
    sections = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    for command, body in zip(sections[1::2], sections[2::2], strict=True):
        commands = [options_of(word) for word in command.split(" and ")]
        known = {option: default for options in commands for option, default in options.items()}
        named = {option for code in CODE.findall(body) for option in OPTION.findall(code)}
        assert named <= set(known), f"{command}: {named - set(known)}"
        said = re.findall(r"`(--[a-z-]+)[^`]*` \(default:? `?([\w./]+)", body)
        for option, default in said:
            assert default in ("all", str(known[option])), f"{command} {option}: {known[option]}"


API = ROOT / "docs/reference/api.md"
SIGNATURE = re.compile(r"(?:\*\*|^\| )`@?((?:ol|job|loader)\.[\w.]+)\(([^`]*)\)`", re.MULTILINE)
PARAMETER = re.compile(r"\*{0,2}(\w+)(=(?:\([^)]*\)|[^,]*))?(?:, |$)")


def test_signatures_are_those_of_the_code() -> None:
    owners = {"ol": ol, "job": ol.Job, "loader": ol.Loader}
    found = SIGNATURE.findall(API.read_text())
    assert len(found) > 8
    for name, words in found:
        owner, *path = name.split(".")
        function = functools.reduce(getattr, path, owners[owner])
        known = dict(inspect.signature(function).parameters)
        known.pop("self", None)
        said = PARAMETER.findall(words.replace("*, ", "").removesuffix("...").removesuffix(", "))
        listed = list(known)[: len(said)] if words.endswith("...") else list(known)
        assert [parameter for parameter, _ in said] == listed, name
        for parameter, default in said:
            value, real = default.lstrip("="), known[parameter].default
            if default != "=":  # its value is not said
                assert (
                    real is inspect.Parameter.empty
                    if not value
                    else repr(real) == repr(ast.literal_eval(value))
                ), f"{name}: {parameter}={real!r}"


def test_every_public_name_is_on_the_page() -> None:
    text = API.read_text() + (ROOT / "docs/reference/errors.md").read_text()
    missing = [name for name in ol.__all__ if not re.search(rf"`@?ol\.{name}\b", text)]
    assert not missing


KEYS = {
    tuple(key.split(".")[:depth])
    for key in config_reference.COUNTS
    for depth in range(1, key.count(".") + 2)
}
SECTIONS = {key[0] for key in KEYS if len(key) > 1}
BY_NAME = {"sources", "tokenizers", "streams", "media", "weights", "max_passes", "stages"}


def is_config_key(parts: list[str]) -> bool:
    """Whether the config has this key; under some any name or number may stand."""
    at: tuple[str, ...] = ()
    for before, part in zip(["", *parts], parts, strict=False):
        if (*at, part) in KEYS:
            at = (*at, part)
        elif before not in BY_NAME or before != at[-1]:
            return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_config_keys_that_are_named_exist(page: Path) -> None:
    for word in codes(page):
        key = re.split(r"[=:]", word)[0]
        parts = key.split(".")
        if parts[0] in SECTIONS and len(parts) > 1 and re.fullmatch(r"[\w.]+", key):
            assert is_config_key(parts), f"`{word}`"


def test_every_decision_is_listed() -> None:
    listed = (ROOT / "docs/decisions/README.md").read_text()
    pages = [path.name for path in (ROOT / "docs/decisions").glob("0*.md")]
    assert pages and all(f"({name})" in listed for name in pages)


def test_the_config_reference_is_current() -> None:
    assert config_reference.main(["--check"]) == 0, "run tools/config_reference.py"


# Overrides that need no other index than the starter's, one or more per key.
CHANGES = [
    *("seed=8", "context=512", "bins=32", "substeps=2", "align=4", "pad_token=3", "leftover=drop"),
    *("packing.method=concat", "packing.slack=0.1", "packing.max_delay=2"),
    *("mixture.unit=samples", "mixture.quota=multinomial", "mixture.weights.web=0.5", "steps=9"),
    *("at_end=stop", "over_length=truncate", "sources.web.at_end=drop", "sources.web.bos=2"),
    *("sources.web.over_length=drop", "sources.web.eod=5", "sources.web.shuffle=full"),
    *("sources.web.window_rows=99", "sources.web.window_bytes=1MB"),
    *("sources.web.bad_rows_allowed=1",),
    *("sources.web.limits.max_expansion=7", "tokenizers.bpe.add_special_tokens=true"),
    *("sources.web.loaders=2", "sources.web.workers=2", "sources.web.allow_duplicates=true"),
    *("delivery.microbatch_size=2", "delivery.fill_empty=true", "delivery.cp_slicing=trainer"),
    *("delivery.sequence_parallel=true", "delivery.token_dtype=int64", "delivery.loss_dtype=uint8"),
    *("delivery.all_stages=true", "delivery.broadcast=[tp]", "runtime.threads=1"),
    *("runtime.io_threads=1", "runtime.prefetch=3", "runtime.runway=2", "runtime.open_files=9"),
    *("runtime.payload_budget=1MB", "runtime.constructor_budget=9GB"),
    *("runtime.private_copy_limit=1MB", "runtime.tokenizer_processes=2", "runtime.alarm_seconds=3"),
]


def sections_of(config: Path, *overrides: str) -> dict[str, str]:
    native = ol.job(config, overrides=overrides).open_stream().native
    sections: dict[str, str] = native.section_digests()
    return sections


@pytest.fixture(scope="module")
def unchanged(starter: Path) -> dict[str, str]:
    return sections_of(starter)


@pytest.mark.parametrize("change", CHANGES)
def test_keys_count_where_the_page_says(
    change: str, starter: Path, unchanged: dict[str, str]
) -> None:
    key = re.sub(r"^(sources|tokenizers)\.\w+", r"\1", change.partition("=")[0])
    key = re.sub(r"^mixture\.weights\.\w+$", "mixture.weights", key)
    key = "bins.bins" if key == "bins" else key
    said = config_reference.COUNTS[key]
    now = sections_of(starter, change)
    changed = {name.split(":")[0] for name, digest in now.items() if unchanged[name] != digest}
    assert changed == (set() if said == "no" else {said})

"""YAML as a config may use it, and what is refused before anything else is looked at."""

from __future__ import annotations

import math
from typing import Any

import pytest
from overlord._src.config import yaml_text
from overlord._src.config.reading import read_config
from overlord.config import ConfigError

PLAIN = """\
job: demo
seed: 7
context: 64
bins: 8
vocabulary: 32000
at_end: repeat
mixture: {weights: {web: 0.6}}
sources:
  web: {files: data/*.parquet, tokens: input_ids}
"""


def refused(text: str | bytes, write: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(write(text))
    return str(caught.value)


def test_plain_file(write: Any) -> None:
    loaded = read_config(write(PLAIN))
    assert loaded.config.sources["web"].files == ["data/*.parquet"]
    assert loaded.base == loaded.index_dir.parent


def test_byte_order_mark_and_crlf_are_accepted(write: Any) -> None:
    text = b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode()
    assert read_config(write(text)).config == read_config(write(PLAIN)).config


def test_core_schema_of_yaml_1_2() -> None:
    text = (
        "{a: 1e-3, b: on, c: 2024-01-01, d: 010, e: 0x10, f: .inf, g: ~, h: true, i: 1:30, j: 0o17}"
    )
    data = yaml_text.parse(text).data
    assert data == {
        "a": 0.001,
        "b": "on",
        "c": "2024-01-01",
        "d": 10,
        "e": 16,
        "f": math.inf,
        "g": None,
        "h": True,
        "i": "1:30",
        "j": 15,
    }


def test_merge_keys_and_aliases() -> None:
    text = "base: &b {x: 1, y: 2}\nmine:\n  <<: *b\n  y: 3\n"
    assert yaml_text.parse(text).data["mine"] == {"x": 1, "y": 3}


def test_duplicate_source_is_refused_with_both_lines(write: Any) -> None:
    text = PLAIN + "  web: {files: other/*.parquet, tokens: input_ids}\n"
    message = refused(text, write)
    assert "sources.web" in message and "lines 9 and 10" in message and "mix.yaml:10" in message


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['true']",
        "!!python/name:os.system",
        "!mine 3",
        "!!binary aGk=",
        "!!set {a, b}",
    ],
)
def test_object_tags_are_refused(tag: str, write: Any) -> None:
    message = refused(PLAIN + f"leftover: {tag}\n", write)
    assert "leftover" in message and "tag" in message


def test_alias_bomb_is_refused_before_it_grows(write: Any) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} [" + ", ".join([f"*a{level - 1}"] * 10) + "]")
    assert "aliases expand" in refused("\n".join(lines), write)


def test_alias_inside_itself_is_refused(write: Any) -> None:
    assert "aliases expand" in refused("a: &a [1, *a]\n", write)


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000 + "x"])
def test_depth_limit(text: str, write: Any) -> None:
    message = refused(text, write)
    assert "nested deeper than 32" in message


def test_size_limit(write: Any) -> None:
    message = refused("#" * 2_000_000, write)
    assert "1000001 bytes" in message and "1000000" in message


def test_not_utf8(write: Any) -> None:
    message = refused(PLAIN.encode() + b"name: \xff\xfe\n", write)
    assert "not UTF-8" in message and "0xff" in message and "line 10" in message
    assert "not UTF-8" in refused(PLAIN.encode("utf-16"), write)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty"),
        ("- a\n", "not a mapping"),
        ("a: [1, 2\n", "not YAML"),
        ("a: 1\n---\nb: 2\n", "not YAML"),
        ("1: x\n", "not text"),
        ("? [a, b]\n: x\n", "not text"),
        ("seed: " + "9" * 5000, "number cannot be read"),
        ("a: \x00\n", "not YAML"),
    ],
)
def test_other_text_is_refused(text: str, part: str, write: Any) -> None:
    assert part in refused(text, write)


def test_missing_file_says_so(tmp_path: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_config(tmp_path / "nothing.yaml")

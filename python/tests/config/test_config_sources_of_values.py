"""Environment variables, dotted overrides, sizes and weights as exact numbers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from overlord._src.config import yaml_text
from overlord._src.config.field_types import parse_bytes, show_bytes
from overlord._src.config.reading import read_config
from overlord._src.config.weights import WEIGHT_ONE, fixed_point, normalise
from overlord.config import ConfigError, load


def test_environment_fills_strings_and_numbers(good: dict[str, Any]) -> None:
    good["sources"]["web"]["files"] = "${ROOT}/web/*.parquet"
    good["steps"], good["job"] = "${STEPS}", "${NAME}"
    good["sources"]["web"]["text"] = "$${ROOT}"
    environment = {"ROOT": "/data", "STEPS": "12", "NAME": "77"}
    config = read_config(good, environment=environment).config
    assert config.sources["web"].files == ["/data/web/*.parquet"]
    assert (config.steps, config.job, config.sources["web"].text) == (12, "77", "${ROOT}")


def test_missing_variable_is_named(good: dict[str, Any]) -> None:
    good["sources"]["web"]["files"] = "${NO_SUCH_ROOT}/x.parquet"
    with pytest.raises(
        ConfigError, match=r"sources\.web\.files: the environment has no variable NO_SUCH_ROOT"
    ):
        read_config(good, environment={})


def test_overrides_as_text_and_mapping(good: dict[str, Any]) -> None:
    config = load(
        good,
        [
            "mixture.weights.web=0.5",
            "runtime.threads=4",
            "sources.web.files=[a.parquet, b.parquet]",
        ],
    )
    assert config.mixture.weights == {"web": 0.5, "code": 0.4}
    assert config.runtime.threads == 4 and config.sources["web"].files == ["a.parquet", "b.parquet"]
    assert load(good, {"packing.method": "pad"}).packing.method == "pad"
    good["mixture"] = {"stages": [{"steps": [0, None], "weights": {"web": 1}}]}
    assert load(good, ["mixture.stages.0.weights.web=3"]).mixture.stage_list()[0].weights == {
        "web": 3
    }


OVERRIDES = [
    ("runtime.threads", "no '='"),
    ("runtime..threads=1", "not a dotted key path"),
    ("runtime.thraeds=1", "did you mean threads"),
    ("job.name=x", "because job is not a mapping"),
    ("mixture.stages.7.steps=[0, 1]", "no such entry"),
    ("steps=[1", "not YAML"),
    ("seed=1.5", "not a seed"),
]


@pytest.mark.parametrize(("override", "part"), OVERRIDES)
def test_bad_overrides(override: str, part: str, good: dict[str, Any]) -> None:
    if "stages" in override:
        good["mixture"] = {"stages": [{"steps": [0, None], "weights": {"web": 1}}]}
    with pytest.raises(ConfigError, match=part):
        load(good, [override])


def test_overriding_leaves_the_given_dict_alone(good: dict[str, Any]) -> None:
    load(good, ["mixture.weights.web=0.5"])
    assert good["mixture"]["weights"]["web"] == 0.6


SIZES = [
    ("256MB", 256_000_000),
    ("256 MiB", 256 << 20),
    ("1.5GB", 1_500_000_000),
    (17, 17),
    ("17", 17),
    ("1kib", 1024),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_sizes(text: Any, size: int) -> None:
    assert parse_bytes(text) == size


def test_sizes_for_people() -> None:
    assert [show_bytes(n) for n in (17, 2048, 3 << 20)] == ["17 B", "2 KiB", "3 MiB"]


def test_weights_are_ratios() -> None:
    assert normalise({"a": 6, "b": 4}) == {"a": Fraction(3, 5), "b": Fraction(2, 5)}
    assert fixed_point({"a": 0.6, "b": 0.4}) == fixed_point({"a": 6, "b": 4})
    assert fixed_point({"a": 0.6, "b": 0.4})["a"] == round(0.6 * WEIGHT_ONE)


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1e9), min_size=1, max_size=40))
def test_fixed_point_sums_to_one(weights: dict[str, float]) -> None:
    if not any(weights.values()):
        return
    fixed = fixed_point(weights)
    assert sum(fixed.values()) == WEIGHT_ONE
    for name, ratio in normalise(weights).items():
        assert abs(fixed[name] - ratio * WEIGHT_ONE) < 1


@given(st.binary(max_size=400))
def test_any_bytes_give_a_config_or_a_config_error(data: bytes) -> None:
    try:
        yaml_text.parse(yaml_text.decode_text(data))
    except ConfigError as error:
        assert error.problems


def test_paths_are_relative_to_the_file(write: Any, good: dict[str, Any], tmp_path: Path) -> None:
    import json

    loaded = read_config(write(json.dumps(good), "mix.json"))
    assert loaded.base == tmp_path and loaded.index_dir == tmp_path / ".overlord"


def test_lines_in_messages(write: Any) -> None:
    text = (
        "job: demo\nseed: 7\ncontext: 64\nbins: 8\nvocabulary: 9\nat_end: stop\n"
        "mixture:\n  weights:\n    web: -1\n"
    )
    with pytest.raises(ConfigError, match=r"mix\.yaml:9: mixture\.weights\.web"):
        read_config(write(text + "sources:\n  web: {files: x.bin}\n"))

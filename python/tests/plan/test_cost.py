"""Cost models: exact numbers, plain data, presets, and what bad cost functions are answered."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import fit_presets
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from overlord._src.errors import ConfigError

import overlord as ol

COEFFICIENT = st.one_of(st.integers(0, 2**20), st.integers(0, 2**44), st.integers(0, 2**63 - 1))
LENGTHS = st.lists(st.one_of(st.integers(0, 5000), st.integers(0, 2**32 - 1)), max_size=20)


def term(column: str, numbers: tuple[int, ...]) -> ol.cost.CostTerm:
    return ol.cost.CostTerm(column, *numbers)


MODELS = st.builds(
    lambda terms, own: ol.cost.CostModel("sum", tuple(term(*item) for item in terms.items()), own),
    st.dictionaries(
        st.sampled_from(["tokens", "image_patches", "ä b"]),
        st.tuples(*[COEFFICIENT] * 5),
        min_size=1,
    ),
    COEFFICIENT,
)


@settings(max_examples=300, deadline=None)
@given(MODELS, LENGTHS)
def test_the_engine_counts_as_python_does(model: ol.cost.CostModel, lengths: list[int]) -> None:
    columns = {
        name: np.array(lengths, dtype=np.int64) // (i + 1) for i, name in enumerate(model.columns)
    }
    rows = [
        dict(zip(columns, map(int, row), strict=True))
        for row in zip(*columns.values(), strict=True)
    ]
    expected = [model.of(**row) for row in rows]
    if any(cost >= 2**63 or size >= 2**63 for cost, size in expected):
        with pytest.raises(ol.InvalidArgumentError, match="do not fit 63 bits"):
            model.evaluate(columns)
        return
    costs = model.evaluate(columns)
    assert costs.cost_ns.dtype == costs.bytes.dtype == np.int64
    assert list(zip(costs.cost_ns.tolist(), costs.bytes.tolist(), strict=True)) == expected


@settings(max_examples=100, deadline=None)
@given(MODELS)
def test_plain_data_gives_the_same_model_back(model: ol.cost.CostModel) -> None:
    data = model.to_dict()
    assert ol.cost.from_dict(data) == model
    assert ol.cost.from_dict(json.loads(json.dumps(data))) == model
    assert ol.cost.from_dict(yaml.safe_load(yaml.safe_dump(data))) == model


def test_golden_numbers() -> None:
    model = ol.cost.quadratic(0.125, 0.25, 5, bin=Fraction(19, 2))
    costs = model.evaluate({"tokens": [0, 1, 2, 3, 4, 100, 2_000_000], "other": ["x"] * 7})
    assert costs.cost_ns.tolist() == [0, 5, 6, 7, 8, 1280, 500_000_500_005]
    assert costs.bytes.tolist() == [0, 1, 2, 3, 4, 100, 2_000_000]
    assert model.bin_cost([5, 6]) == 21 and model.bin_cost([]) == 0
    assert ol.cost.tokens().evaluate({"tokens": np.array([7], np.uint16)}).cost_ns.tolist() == [7]
    assert ol.cost.quadratic(0.1, 0).terms[0].quadratic_q32 == 429496730  # 0.1, not the float


def test_builders() -> None:
    shape: dict[str, Any] = {"hidden": 8, "layers": 3, "heads": 4, "kv_heads": 2, "ffn": 10}
    speeds = {"flops_per_second": 10**9, "attention_flops_per_second": 2e9}
    model = ol.cost.transformer(**shape, vocabulary=100, **speeds)
    assert model.terms[0].linear_q32 == (3 * 432 + 800) * 6 << 32
    assert model.terms[0].quadratic_q32 == 72 << 32
    assert model.kind == "transformer" and model.of(tokens=2) == (25440, 2232)
    unmasked = ol.cost.transformer(**shape, causal=False).terms[0].quadratic_q32
    assert unmasked / ol.cost.transformer(**shape).terms[0].quadratic_q32 == pytest.approx(
        2 * 280 / 215, rel=1e-3
    )
    image = ol.cost.vit(hidden=8, layers=2, ffn=16)
    many = ol.cost.vit(hidden=8, layers=2, ffn=16, patches=256)
    assert many.of(image_patches=512)[0] == pytest.approx(2 * image.of(image_patches=256)[0], abs=1)
    both = ol.cost.sum(model, image)
    assert both == ol.cost.sum(image, model) and both.columns == ("image_patches", "tokens")
    assert ol.cost.sum(model, model).of(tokens=9)[0] == 2 * model.of(tokens=9)[0]
    light = both.with_memory(bytes_per_token=2.5, bytes_per_sample=10, column="tokens")
    assert light.of(tokens=3)[1] == 18 and light.of(tokens=3)[0] == both.of(tokens=3)[0]
    assert light.of(image_patches=3) == both.of(image_patches=3)


def test_data_may_name_a_builder() -> None:
    assert ol.cost.from_dict("tokens") == ol.cost.tokens()
    assert ol.cost.from_dict({"kind": "preset", "name": "vit-1b"}) == ol.cost.preset("vit-1b")
    shape = {"hidden": 8, "layers": 3, "heads": 4, "ffn": 10}
    assert ol.cost.from_dict({"kind": "transformer", **shape}) == ol.cost.transformer(**shape)
    parts = ["tokens", {"kind": "quadratic", "a": 1, "b": 2, "column": "image_patches"}]
    expected = ol.cost.sum(ol.cost.tokens(), ol.cost.quadratic(1, 2, column="image_patches"))
    assert ol.cost.from_dict({"kind": "sum", "parts": parts}) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ol.cost.quadratic(-1, 0), "cost.a: out of range; got -1"),
        (lambda: ol.cost.quadratic(0, math.nan), "cost.b: not finite"),
        (lambda: ol.cost.quadratic(0, 3e9), "cost.b: out of range"),
        (lambda: ol.cost.quadratic(0, "3"), "cost.b: not a number"),  # type: ignore[arg-type]
        (lambda: ol.cost.quadratic(True, 0), "cost.a: not a number"),
        (lambda: ol.cost.tokens(""), "names no column"),
        (lambda: ol.cost.sum(), "has no term"),
        (lambda: ol.cost.sum("tokens"), "not a native cost model"),  # type: ignore[arg-type]
        (lambda: ol.cost.vit(hidden=8, layers=2, ffn=16, patches=0), "cost.patches"),
        (lambda: ol.cost.vit(hidden=8, layers=2, ffn=2.5), "ffn must be a whole number; got 2.5"),  # type: ignore[arg-type]
        (lambda: ol.cost.vit(hidden=8, layers=2, ffn=2**70), "ffn has a wrong value"),
        (
            lambda: ol.cost.vit(hidden=8, layers=2, ffn=4, flops_per_second=0.5),  # type: ignore[arg-type]
            "cost.flops_per_second: not a whole number",
        ),
        (
            lambda: ol.cost.transformer(hidden=10, layers=2, heads=4, ffn=16),
            "heads must divide hidden; got heads 4 and hidden 10",
        ),
        (lambda: ol.cost.preset("llama"), "known are llama-12b, mixtral-8x7b, tmoe-25b"),
        (lambda: ol.cost.preset("llama-12b", tp=0), "got layers 45, tp 0, pp 1"),
        (lambda: ol.cost.from_dict("bogus"), "unknown kind; got 'bogus'; allowed: tokens"),
        (lambda: ol.cost.from_dict(7), "not a cost model"),  # type: ignore[arg-type]
        (lambda: ol.cost.from_dict({"kind": "vit", "hiden": 8}), "wrong arguments: .*hiden"),
        (lambda: ol.cost.from_dict({"kind": "sum", "parts": 3}), "wrong keys for a sum"),
        (lambda: ol.cost.from_dict({"kind": "sum", "terms": [], "x": 1}), "unknown key; got 'x'"),
        (lambda: ol.cost.from_dict({"kind": "sum", "terms": [{"linear_q32": 1}]}), "wrong keys"),
        (
            lambda: ol.cost.from_dict(
                {"kind": "sum", "terms": [{"column": "a", "linear_q32": 1.0}]}
            ),
            "cost.a.linear_q32: not a fixed-point coefficient; got 1.0",
        ),
        (
            lambda: ol.cost.from_dict({"kind": "sum", "terms": [{"column": "a"}, {"column": "a"}]}),
            "a column has two terms",
        ),
        (lambda: ol.cost.from_dict({"kind": "sun", "terms": [{"column": "a"}]}), "unknown kind"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "is not there; got 'tokens'; allowed: none"),
        ({"patches": [1]}, "is not there; got 'tokens'; allowed: patches"),
        ({"tokens": [1.0]}, "wrong dtype; got 'float64'"),
        ({"tokens": [True]}, "wrong dtype; got 'bool'"),
        ({"tokens": [[1]]}, "not one-dimensional"),
        ({"tokens": [3, -4]}, "negative: column 'tokens', row 1: length -4"),
        ({"tokens": [3, 2**32]}, "row 1: length 4294967296"),
        ({"tokens": np.array([2**64 - 1], np.uint64)}, "2\\^32 or more"),
    ],
)
def test_bad_columns_are_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ol.cost.tokens().evaluate(columns)


def test_columns_of_unequal_length() -> None:
    model = ol.cost.sum(ol.cost.tokens(), ol.cost.tokens("image_patches"))
    with pytest.raises(ValueError, match="unequal length: 'tokens' has 2 rows"):
        model.evaluate({"tokens": [1, 2], "image_patches": [1]})
    assert model.evaluate({"tokens": [], "image_patches": []}).cost_ns.size == 0
    strided = np.arange(10)[::3]
    assert ol.cost.tokens().evaluate({"tokens": strided}).cost_ns.tolist() == [0, 3, 6, 9]


# ---- presets ----


def measured_rows() -> dict[str, list[dict[str, str]]]:
    with fit_presets.MEASURED.open() as file:
        rows = list(csv.DictReader(file))
    return {
        shape.name: [row for row in rows if row["model"] == shape.measured]
        for shape in fit_presets.SHAPES
    }


@pytest.mark.parametrize("name", [shape.name for shape in fit_presets.SHAPES])
def test_presets_predict_what_was_measured(name: str) -> None:
    about = ol.cost.presets()[name]
    model = ol.cost.preset(name, layers=1)
    rows = measured_rows()[name]
    assert len(rows) == about["rows"] >= 39
    errors = []
    for row in rows:
        lengths = np.array(row["lengths"].split(), dtype=np.int64)
        predicted = model.bin_cost(model.evaluate({about["column"]: lengths}).cost_ns)
        time_ns = (float(row["forward_ms"]) + float(row["backward_ms"])) * 1e6
        errors.append(abs(predicted / time_ns - 1))
    said = about["errors"]
    assert max(errors) <= said["max"]
    assert np.quantile(errors, 0.9) <= said["p90"] + 0.005  # folds differ a little from the whole
    assert np.median(errors) <= said["median"] + 0.005


def test_presets_are_current() -> None:
    assert fit_presets.main(["--check"]) == 0


def test_presets_are_the_papers_models() -> None:
    shapes = {
        name: (about["layers"], about["heads"], about["hidden"])
        for name, about in ol.cost.presets().items()
    }
    assert shapes == {
        "llama-12b": (45, 36, 4608),
        "mixtral-8x7b": (32, 32, 4096),
        "tmoe-25b": (42, 16, 2048),
        "vit-1b": (39, 16, 1408),
        "vit-2b": (48, 16, 1664),
    }
    for name in shapes:
        model = ol.cost.preset(name)
        assert model == ol.cost.from_dict(model.to_dict())
        assert min(model.of(**{model.columns[0]: 1000})) > 0
        assert 0.25 < ol.cost.presets()[name]["forward_share"] < 0.4


# ---- Python costs ----

COLUMNS = {"tokens": np.arange(5), "pages": np.ones(5)}


def test_python_costs_are_rounded_half_up() -> None:
    def by_pages(columns: dict[str, Any]) -> Any:
        return columns["tokens"] * 0.25 + columns["pages"]

    cost = ol.cost.python(by_pages, version=3)
    assert cost.evaluate(COLUMNS).cost_ns.tolist() == [1, 1, 2, 2, 2]
    scaled = ol.cost.python(by_pages, version=3, scale=1000)
    assert scaled.evaluate(COLUMNS).cost_ns.tolist() == [1000, 1250, 1500, 1750, 2000]
    assert cost.evaluate({"tokens": [], "pages": []}).cost_ns.size == 0
    almost = ol.cost.evaluate_python(lambda c: [0.49999999999999994, 2.0**53 + 2], {"x": [1, 2]})
    assert almost.cost_ns.tolist() == [0, 2**53 + 2]
    assert almost.bytes.tolist() == [0, 0]
    both = ol.cost.evaluate_python(
        lambda c: {"cost": c["tokens"] * 2, "bytes": c["tokens"] + 0.5}, COLUMNS
    )
    assert both.cost_ns.tolist() == [0, 2, 4, 6, 8] and both.bytes.tolist() == [1, 2, 3, 4, 5]


def test_python_costs_as_data() -> None:
    def mine(columns: dict[str, Any]) -> Any:
        return columns["tokens"]

    cost = ol.cost.python(mine, version="2b", name="mine", scale=10)
    data = json.loads(json.dumps(cost.to_dict()))
    assert data == {"kind": "python", "name": "mine", "version": "2b", "scale": 10}
    assert ol.cost.from_dict(data, {"mine": mine}) == cost
    assert ol.cost.python(mine, version=1).name.endswith("test_python_costs_as_data.<locals>.mine")
    with pytest.raises(ConfigError, match="not registered; got 'mine'; allowed: yours"):
        ol.cost.from_dict(data, {"yours": mine})
    with pytest.raises(ConfigError, match="wrong keys for a Python cost"):
        ol.cost.from_dict({"kind": "python", "name": "mine"}, {"mine": mine})
    with pytest.raises(ConfigError, match="cannot be a part of a sum"):
        ol.cost.from_dict({"kind": "sum", "parts": [data]}, {"mine": mine})
    with pytest.raises(ConfigError, match="not callable"):
        ol.cost.python(7, version=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="wrong version"):
        ol.cost.python(mine, version=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="wrong scale"):
        ol.cost.python(mine, version=1, scale=0)


def raising(columns: dict[str, Any]) -> Any:
    return columns["token"]


def writing(columns: dict[str, Any]) -> Any:
    columns["tokens"][0] = 9
    return columns["tokens"]


@pytest.mark.parametrize(
    ("function", "message", "row"),
    [
        (lambda c: np.array([0, 1, np.nan, -1, 3]), "cost of row 2 is NaN.*: nan", 2),
        (lambda c: np.array([0, 1, 2, np.inf, 3]), "cost of row 3 is NaN, infinite.*: inf", 3),
        (lambda c: np.array([0, -2.5, 2, -1, 3]), "cost of row 1 is .*negative: -2.5", 1),
        (lambda c: c["tokens"] - 3, "cost of row 0 is negative: -3", 0),
        (lambda c: np.full(5, 2.0**63), "cost of row 0 is too large", 0),
        (lambda c: np.array([1, 2, 3, 2**64 - 1, 0], np.uint64), "cost of row 3 is too large", 3),
        (lambda c: c["tokens"][:4], r"shape \(4,\) for 5 rows", None),
        (lambda c: 7, r"shape \(\) for 5 rows", None),
        (lambda c: np.ones((5, 1)), r"shape \(5, 1\) for 5 rows", None),
        (lambda c: c["tokens"] > 1, "dtype bool", None),
        (lambda c: ["a"] * 5, "dtype <U1", None),
        (lambda c: [None] * 5, "dtype object", None),
        (lambda c: np.ones(5, complex), "dtype complex128", None),
        (lambda c: [[1], [2, 3]], "not an array", None),
        (lambda c: None, "dtype object", None),
        (lambda c: {"costs": c["tokens"]}, "answered keys .'costs'.", None),
        (
            lambda c: {"cost": c["tokens"], "bytes": [1, 2, 3, 4, math.nan]},
            "bytes of row 4 is NaN",
            4,
        ),
        (raising, "test_cost.raising: raised KeyError: 'token' .over 5 rows; columns: tok", None),
        (writing, "raised ValueError: .*read-only", None),
    ],
)
def test_bad_cost_functions(function: Any, message: str, row: int | None) -> None:
    with pytest.raises(ol.cost.CostError, match=message) as caught:
        ol.cost.evaluate_python(function, COLUMNS)
    assert caught.value.row == row
    assert caught.value.function in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert COLUMNS["tokens"].tolist() == [0, 1, 2, 3, 4]


def test_rows_have_the_planners_names() -> None:
    cost = ol.cost.python(lambda c: c["tokens"] * -1.0 - 1, version=1, name="mine")
    with pytest.raises(ol.cost.CostError, match="function mine: cost of web\\[0:40\\] is"):
        cost.evaluate(COLUMNS, row_name=lambda row: f"web[0:{row + 40}]")
    with pytest.raises(ConfigError, match="of equal length"):
        cost.evaluate({"tokens": [1, 2], "pages": [1]})
    with pytest.raises(ConfigError, match="not one-dimensional"):
        cost.evaluate({"tokens": 3})


def test_interrupts_are_not_swallowed() -> None:
    def interrupted(columns: dict[str, Any]) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ol.cost.evaluate_python(interrupted, COLUMNS)


def test_the_measured_rows_are_whole() -> None:
    for rows in measured_rows().values():
        for row in rows:
            lengths = [int(word) for word in row["lengths"].split()]
            assert sum(lengths) == int(row["tokens"]) and len(lengths) == int(row["documents"])
            assert sum(length**2 for length in lengths) == int(row["sum_squares"])
    assert Path(fit_presets.MEASURED).stat().st_size < 100_000

"""Stages of bins, parts and groups of rows, groups of weights: what is read and what refused."""

from __future__ import annotations

from typing import Any

import pytest
from overlord._src.config.columns import part_range
from overlord._src.config.reading import read_config

import overlord as ol


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(ol.ConfigError) as caught:
        read_config(config)
    return str(caught.value)


def web(good: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {**good, "sources": {**good["sources"], "web": {**good["sources"]["web"], **keys}}}


@pytest.mark.parametrize(
    ("bins", "words"),
    [
        (0, "bins: too small; got 0"),
        ("8", "bins: not an integer"),
        ([], "bins: empty"),
        ([{"steps": [0, 4], "bins": 0}], "bins.0.bins: too small"),
        ([{"steps": [0, 4], "bin": 8}], "did you mean bins?"),
        ([{"steps": [0, 4], "bins": 8}], "steps 4 and later have no stage"),
        (
            [{"steps": [0, 4], "bins": 8}, {"steps": [5, None], "bins": 8}],
            "steps 4 to 4 have no stage",
        ),
    ],
)
def test_wrong_stages_of_bins_are_named(good: dict[str, Any], bins: Any, words: str) -> None:
    assert words in refusal({**good, "bins": bins})


def test_substeps_divide_the_bins_of_every_stage(good: dict[str, Any]) -> None:
    stages = [{"steps": [0, 4], "bins": 8}, {"steps": [4, None], "bins": 10}]
    assert "does not divide bins = 10" in refusal({**good, "bins": stages, "substeps": 4})


def test_weights_of_groups_are_their_parts(good: dict[str, Any]) -> None:
    weights = {
        "web": 0.5,
        "rest": {"weight": 0.5, "of": {"code": 3, "more": {"weight": 1, "of": {"x": 1}}}},
    }
    sources = {**good["sources"], "x": good["sources"]["code"]}
    told = read_config({**good, "sources": sources, "mixture": {"weights": weights}})
    assert told.config.mixture.weights == {"web": 0.5, "code": 0.375, "x": 0.125}


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"weight": 1}, "no group of sources"),
        ({"weight": 1, "of": {"code": 0}}, "no weight inside"),
        ({"weight": 1, "of": {"web": 1}}, "stands twice"),
        ({"weight": "x", "of": {"code": 1}}, "is no weight"),
    ],
)
def test_wrong_groups_of_weights_are_named(
    good: dict[str, Any], group: dict[str, Any], words: str
) -> None:
    assert words in refusal({**good, "mixture": {"weights": {"web": 1, "group": group}}})


def test_parts_meet_at_their_edges(good: dict[str, Any]) -> None:
    told = read_config(web(good, split="990,9,1"))
    source = told.config.sources["web"]
    ranges = [part_range(source, name) for name in ("train", "valid", "test")]
    assert ranges == [part_range(source, name) for name in source.split.shares]  # type: ignore[union-attr]
    assert ranges[0] == (0, 4252017622) and ranges[1] == (4252017623, 4290672327)
    assert ranges[2] == (4290672328, 2**32 - 1)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"split": {"valid": 1}}, "reads the part train; allowed: valid"),
        ({"split": "a,b"}, "not a split"),
        ({"split": {"train": 0}}, "no part has rows"),
        ({"split": {"by": "k"}}, "belong together"),
        ({"group_rows": 2}, "over_length"),
        ({"group_rows": 2, "over_length": "drop", "shuffle": "full"}, "tears rows"),
        ({"group_by": "k", "over_length": "drop"}, "not a metadata column"),
    ],
)
def test_wrong_parts_and_groups_are_named(
    good: dict[str, Any], keys: dict[str, Any], words: str
) -> None:
    assert words in refusal(web(good, **keys))

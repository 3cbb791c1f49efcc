"""What trainers are told of a job before it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from overlord._src.trainers.counts import microbatches_of
from packed_job import packed_job

import overlord as ol


def grown(first: int, then: int) -> list[dict[str, object]]:
    return [{"steps": [0, 3], "bins": first}, {"steps": [3, None], "bins": then}]


def test_stages_with_as_many_microbatches_have_one_accumulation(tmp_path: Path) -> None:
    config = packed_job(
        tmp_path, bins=grown(5, 8), delivery={"microbatch_size": 4, "fill_empty": True}
    )
    assert microbatches_of(ol.job(config)) == 2


def test_stages_with_other_counts_are_refused(tmp_path: Path) -> None:
    config = packed_job(tmp_path, bins=grown(4, 8), delivery={"microbatch_size": 4})
    with pytest.raises(ol.ConfigError, match="different numbers of microbatches") as told:
        microbatches_of(ol.job(config))
    assert "bins" in str(told.value) and "1, 2" in str(told.value)

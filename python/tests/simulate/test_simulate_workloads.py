"""Workloads of the simulator: the same for the same seed, shaped like the published corpora."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from overlord._src.mesh import Mesh
from overlord._src.simulate.columns import cut_to_context, make_columns, pack_in_order
from overlord._src.simulate.workloads import (
    WORKLOADS,
    from_index,
    from_parquet,
    synthetic,
)

import overlord as ol

ROWS = 60_000


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_and_a_step_give_the_same_columns(name: str) -> None:
    first, again = (synthetic(name, 3).samples(5, 500).as_dict() for _ in range(2))
    assert all(np.array_equal(first[column], again[column]) for column in first)
    other_seed, other_step = synthetic(name, 4).samples(5, 500), synthetic(name, 3).samples(6, 500)
    for other in (other_seed, other_step):
        assert not np.array_equal(other.tokens, first["tokens"])


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_step_has_what_was_asked_for(name: str) -> None:
    workload = WORKLOADS[name]
    columns = workload.draw(0, 2000, workload.default_context, "samples")
    assert columns.atoms == len(columns) == 2000
    assert int(columns.tokens.max()) <= workload.default_context
    assert int(columns.tokens.min()) >= 1 and int(columns.bytes.min()) >= 1
    assert 0 <= int(columns.source.min()) <= int(columns.source.max()) < len(workload.source_names)
    assert np.all(columns.text_tokens <= columns.tokens)


def test_coyo_has_the_published_captions() -> None:
    text = WORKLOADS["coyo"].samples(0, ROWS).text_tokens
    assert (text <= 64).mean() == pytest.approx(0.9823, abs=0.004)  # the paper's Figure 2
    assert text[text > 64].sum() / text.sum() == pytest.approx(0.093, abs=0.012)
    assert text.mean() == pytest.approx(17.24, rel=0.03)  # the corpus' own table


def test_coyo_has_the_published_pictures() -> None:
    columns = WORKLOADS["coyo"].samples(0, ROWS)
    assert len(WORKLOADS["coyo"].source_names) == 5
    assert np.all(columns.images == 1)
    # 622 x 541 pixels on average; the mean of a product is above the product of means.
    assert 622 * 541 / 256 < columns.image_patches.mean() < 2 * 622 * 541 / 256
    assert columns.image_patches.min() >= 13 * 13  # no side under 200 pixels


@pytest.mark.parametrize(
    ("name", "median", "p99", "mean"),
    [
        ("web", (400, 450), (4000, 4700), (680, 720)),
        ("code", (570, 650), (9_000, 10_500), (1200, 1290)),
        ("audio", (100, 115), (800, 1050), (150, 180)),
        ("video", (690, 770), (5_300, 6_500), (1060, 1180)),
    ],
)
def test_medians_and_tails(
    name: str, median: tuple[int, int], p99: tuple[int, int], mean: tuple[int, int]
) -> None:
    tokens = WORKLOADS[name].samples(1, ROWS).tokens
    assert median[0] <= np.median(tokens) <= median[1]
    assert p99[0] <= np.percentile(tokens, 99) <= p99[1]
    assert mean[0] <= tokens.mean() <= mean[1]


def test_books_are_long() -> None:
    columns = WORKLOADS["books"].samples(0, ROWS)
    is_book = columns.source >= 32
    assert is_book.mean() == pytest.approx(1 / 21, abs=0.005)
    assert columns.tokens[is_book].mean() == pytest.approx(538.4 * 1024 / 4.3, rel=0.05)


def test_speech_has_the_published_quantiles() -> None:
    seconds = WORKLOADS["audio"].samples(0, ROWS).audio_frames / 50
    published = {25: 3.7, 50: 6.8, 75: 12.2, 99: 61.0}
    for percent, value in published.items():
        assert np.percentile(seconds, percent) == pytest.approx(value, rel=0.08)


@pytest.mark.parametrize(("name", "sources"), [("navit", 306), ("navit_100", 100)])
def test_navit_has_many_uneven_sources_and_longer_text(name: str, sources: int) -> None:
    columns = WORKLOADS[name].samples(0, ROWS)
    counts = np.sort(np.bincount(columns.source, minlength=sources))
    assert len(counts) == sources and counts[0] > 0
    assert counts[-1] > 10 * counts[len(counts) // 2]
    assert columns.text_tokens.mean() > 10 * WORKLOADS["coyo"].samples(0, 9999).text_tokens.mean()
    assert columns.images.max() > 4


def test_cutting_keeps_every_token_of_text() -> None:
    columns = make_columns(3, {"text_tokens": [10, 250, 100], "bytes": [40, 1000, 400]})
    cut = cut_to_context(columns, 100)
    assert cut.tokens.tolist() == [10, 100, 100, 50, 100]
    assert int(cut.bytes.sum()) == 1440


def test_pictures_shrink_to_the_context() -> None:
    given = {"text_tokens": [20], "tokens": [1020], "images": [2], "image_patches": [1000]}
    cut = cut_to_context(make_columns(1, given), 520)
    assert (int(cut.tokens[0]), int(cut.image_patches[0])) == (520, 500)


def test_packing_cuts_at_borders_and_keeps_order() -> None:
    columns = make_columns(4, {"text_tokens": [5, 12, 3, 9]})
    packed = pack_in_order(columns, 10, 9)
    assert packed.tokens.tolist() == [5, 5, 7, 3]
    assert packed.atom.tolist() == [0, 0, 1, 1]
    assert packed.per_atom(packed.tokens).tolist() == [10, 10]
    drawn = WORKLOADS["web"].draw(2, 40, 1024, "sequences")
    assert drawn.per_atom(drawn.tokens).tolist() == [1024] * 40


def test_media_is_not_packed_into_sequences() -> None:
    with pytest.raises(ol.ConfigError, match="cannot be cut at sequence borders"):
        WORKLOADS["coyo"].draw(0, 8, 4096, "sequences")


def test_rows_of_a_parquet(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = {
        "source": ["web", "code", "web"],
        "tokens": [100, 200, 900],
        "text_tokens": [100, 200, 400],
        "image_patches": [0, 0, 500],
        "bytes": [1, 2, 3],
    }
    pq.write_table(pa.table(table), path)
    workload = from_parquet(path)
    assert list(workload.source_names) == ["web", "code"]
    step = workload.draw(1, 2, 1000, "samples")  # rows 2 and 3, which is 0 again
    assert step.tokens.tolist() == [900, 100] and step.images.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"length": [1]}, "neither a column tokens nor text_tokens"),
        ({"tokens": [1.5]}, "no whole numbers"),
        ({"tokens": [-1]}, "no whole numbers"),
        ({"tokens": pa.array([], pa.int64())}, "no rows"),
        ({"tokens": [3], "text_tokens": [4]}, "more text_tokens than tokens"),
    ],
)
def test_a_parquet_that_will_not_do(tmp_path: Path, table: dict[str, object], message: str) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(ol.ConfigError, match=message):
        from_parquet(path)


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("tokens\n1\n")
    with pytest.raises(ol.ConfigError, match="not a Parquet file"):
        from_parquet(tmp_path / "rows.parquet")


def test_a_jobs_own_steps(starter: Path) -> None:
    job = ol.job(starter, mesh=Mesh())
    workload = from_index(job, 3)
    assert len(workload.steps) == 3
    for number, columns in enumerate(workload.steps):
        drawn = workload.draw(number, workload.bins, workload.default_context, "sequences")
        assert drawn.atoms == workload.bins
        assert int(drawn.per_atom(columns.tokens).max()) <= workload.default_context
        assert set(columns.source.tolist()) <= set(range(len(workload.source_names)))

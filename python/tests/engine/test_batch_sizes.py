"""The number of sequences of a step by a schedule or by declaration, and what was read so far."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from delivered import content, segments_of
from overlord._src.config.reading import read_config
from overlord._src.index import indexing

import overlord as ol
from overlord import _core as core

ENGINES = ["embedded", "processes"]
STAGES = [
    {"steps": [0, 2], "bins": 4},
    {"steps": [2, 5], "bins": 16},
    {"steps": [5, None], "bins": 8},
]
BINS = [4, 4, 16, 16, 16, 8, 8, 8]


@pytest.fixture
def staged(config: dict[str, Any]) -> dict[str, Any]:
    """Eight steps of three sizes."""
    return {**config, "bins": STAGES, "steps": len(BINS)}


def index_lengths(config: dict[str, Any]) -> None:
    """What makes the length of a stream known."""
    indexing.build_indexes(read_config(config), ol.job(config).open_stream().sources, lengths=True)


def read_all(config: dict[str, Any], mesh: str, **more: Any) -> list[Any]:
    """Every microbatch of rank 0."""
    with ol.job(config, mesh=mesh).train(ranks="all", **more) as loaders:
        return [batches[0] for batches in loaders.rounds()]


@pytest.mark.parametrize("engine", ENGINES)
def test_steps_have_the_sequences_of_their_stage(staged: dict[str, Any], engine: str) -> None:
    with ol.job(staged, mesh="dp=2").train(ranks="all", engine=engine) as loaders:
        assert len(loaders[0]) == sum(BINS) // 2
        tokens = samples = sequences = 0
        for step in loaders.steps():
            first, *_, last = step[0]
            assert len(step[0]) == len(step[1]) == BINS[first.step] // 2
            assert (first.tokens_so_far, first.samples_so_far, first.sequences_so_far) == (
                tokens,
                samples,
                sequences,
            )
            both = [batch for batches in step.values() for batch in batches]
            tokens += sum(batch.num_tokens for batch in both)
            samples += sum(int((batch.lineage()["first"] == 0).sum()) for batch in both)
            sequences += len(both)
            assert (last.tokens_so_far, last.samples_so_far, last.sequences_so_far) == (
                tokens,
                samples,
                sequences,
            )
            so_far = {"sequences": sequences, "samples": samples, "tokens": tokens}
            assert last.state["so_far"] == so_far
    assert sequences == sum(BINS)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_schedule_resumes_in_every_step_on_any_mesh(staged: dict[str, Any], engine: str) -> None:
    other = "embedded" if engine == "processes" else "processes"
    whole = ol.job(staged, mesh="dp=2").train(ranks="all", engine="embedded")
    for _ in whole.steps():
        pass
    for stop in (1, 2, 4, 5, 7):
        with ol.job(staged, mesh="dp=2").train(ranks="all", engine=engine) as first:
            for _, _ in zip(range(stop), first.steps(), strict=False):
                pass
            state = first.state_dict()
        with ol.job(staged, mesh="dp=4").train(ranks="all", engine=other) as second:
            second.load_state_dict(state)
            for _ in second.steps():
                pass
            assert second.content_hash() == whole.content_hash()
            assert second.state_dict()["so_far"] == whole.state_dict()["so_far"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_resume_may_declare_another_size(config: dict[str, Any], engine: str) -> None:
    config["at_end"], config["leftover"] = "drop", "drain"
    del config["steps"]
    expected = segments_of(read_all(config, "dp=1", engine="embedded"))
    with ol.job(config).train(engine=engine) as first:
        got = [batch for _, step in zip(range(3), first.steps(), strict=False) for batch in step]
        state = first.state_dict()
    larger = copy.deepcopy(config)
    larger["bins"], larger["delivery"] = 32, {"microbatch_size": 4}
    with ol.job(larger, mesh="dp=2").train(ranks="all", engine=engine) as second:
        with pytest.raises(core.StateMismatchError, match="batch"):
            second.load_state_dict(state)
        second.load_state_dict(state, allow=("batch",))
        for batches in second.rounds():
            assert batches[0].tokens is not None and len(batches[0].tokens) == 4
            got += batches.values()
        end = second.state_dict()
    assert [batch.step for batch in got[:49:16]] == [0, 1, 2, 3]
    assert segments_of(got) == expected, "nothing is lost, repeated or cut elsewhere"
    assert end["so_far"]["tokens"] == sum(count for *_, count in expected)
    # Nothing else may differ under that leave, nor the size of a step that has begun.
    for wrong in ({"align": 2}, {"context": 512}):
        with (
            ol.job({**larger, **wrong}).train(engine=engine) as other,
            pytest.raises(core.StateMismatchError, match="config"),
        ):
            other.load_state_dict(state, allow=("batch",))
            next(other)
    with ol.job(config).train(engine="embedded") as inside:
        next(inside)
        begun = inside.state_dict()
    with (
        ol.job({**config, "bins": 32}).train(engine=engine) as other,
        pytest.raises(core.StateMismatchError),
    ):
        other.load_state_dict(begun, allow=("batch",))
        next(other)


def test_every_stage_fits_the_mesh_also_after_a_rebuild(staged: dict[str, Any]) -> None:
    with pytest.raises(ol.ConfigError, match=r"bins\[?\.?0.*does not divide it; got 4"):
        ol.job(staged, mesh="dp=8")
    with ol.job(staged, mesh="dp=4").train(ranks="all", engine="embedded") as loaders:
        next(loaders.steps())
        with pytest.raises(core.InvalidArgumentError, match="got 4 from step 0 on; nearest 3 or 6"):
            loaders.rebuild("dp=3", ranks=[0, 1, 2])
        loaders.rebuild("dp=2,tp=2")
        sizes = [sum(len(step[rank]) for rank in (0, 2)) for step in loaders.steps()]
    assert sizes[-3:] == BINS[-3:]


@pytest.mark.parametrize("engine", ENGINES)
def test_drop_last_gives_full_steps_only(config: dict[str, Any], engine: str) -> None:
    del config["steps"]
    config |= {"at_end": "drop", "packing": {"method": "pad"}, "bins": 12}
    drained = read_all(config, "dp=1", engine="embedded")
    last = drained[-1].step
    assert len([b for b in drained if b.step == last and b.num_tokens]) not in (0, 12)
    config["leftover"] = "drop_last"
    index_lengths(config)
    with ol.job(config).train(engine=engine) as loader:
        assert len(loader) == last * 12
        full = list(loader)
    assert [content(batch) for batch in full] == [content(batch) for batch in drained[: last * 12]]

"""Memory, traffic and loaders: the closed forms, and the shape of the paper's figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from overlord._src.mesh import Mesh
from overlord._src.simulate import memory, traffic
from overlord._src.simulate.clients import clients_of
from overlord._src.simulate.columns import make_columns
from overlord._src.simulate.memory import APPENDIX_A, CONSTANTS, GRID, Case, ratio, ratio_grid

BASE = Case()


def test_the_closed_form_is_the_sum_of_its_parts() -> None:
    worker = 306 * CONSTANTS.file_state_bytes + CONSTANTS.worker_buffer_bytes
    assert memory.colocated_bytes(BASE.at(2, 4)) == 512 * 4 * worker
    per_constructor = CONSTANTS.constructor_base_bytes + 3 * (512 / 64) * CONSTANTS.sample_bytes
    assert memory.roles_bytes(BASE.at(2, 4)) == pytest.approx(64 * (4 * worker + per_constructor))


def test_appendix_a_slightly_above_one_and_falling() -> None:
    assert 1.0 < ratio(BASE) < 1.1  # "slightly above 1" at low CP and PP
    for case in APPENDIX_A.values():
        grid = np.array(ratio_grid(case))
        assert np.all(np.diff(grid, axis=0) < 0) and np.all(np.diff(grid, axis=1) < 0)
        size = np.outer(GRID, GRID)
        assert grid == pytest.approx(1 / size, rel=0.1)  # falls as 1 / (CP x PP), within 10 %
        assert np.all(grid >= 1 / size)


def test_appendix_a_what_each_change_does() -> None:
    for cp in GRID:
        for pp in GRID:
            here = ratio(BASE.at(cp, pp))
            assert ratio(replace(BASE, global_batch=2048).at(cp, pp)) > here  # raises our cost
            assert ratio(replace(BASE, workers=16).at(cp, pp)) < here  # favours us
    # A larger cluster favours us with the CP and PP that come with it.
    assert ratio(replace(BASE, nodes=4096).at(8, 8)) < ratio(BASE.at(2, 4))


def test_the_largest_published_saving() -> None:
    # 576 GPUs with TP 4, PP 4, CP 4, 306 sources, one worker, 72 samples per GPU: up to 13.5 x.
    case = Case(global_batch=72 * 576, nodes=144, workers=1, sources=306, cp=4, pp=4)
    assert 1 / ratio(case) == pytest.approx(13.5, rel=0.15)


def test_file_state_is_most_of_a_loader() -> None:
    for sources in (100, 306):
        state = sources * CONSTANTS.file_state_bytes
        assert state / (state + CONSTANTS.worker_buffer_bytes) > 0.7  # the paper's Figure 4


def test_constants_can_be_replaced() -> None:
    small = replace(CONSTANTS, file_state_bytes=2**16)
    assert memory.colocated_bytes(BASE, small) < memory.colocated_bytes(BASE) / 10


def job_size(**changes: float) -> memory.JobSize:
    size = memory.JobSize(64, 2, 8, 306, 32_768, 1e5, 400, 1024, 1e9)
    return replace(size, **changes)  # type: ignore[arg-type]


def test_a_jobs_roles_do_not_grow_with_cp_and_pp() -> None:
    few, many = memory.job_memory(job_size(cp=1, pp=1)), memory.job_memory(job_size())
    assert few["total_bytes"] == many["total_bytes"] == sum(many["roles_bytes"].values())
    assert many["colocated_bytes"] == 16 * few["colocated_bytes"]
    assert many["roles_bytes"]["planner"] == 4 * 32_768 * CONSTANTS.planner_row_bytes


def tally_of(tokens: int, patches: int = 0) -> traffic.Tally:
    tally = traffic.Tally()
    given = {"text_tokens": [tokens, tokens], "image_patches": [patches, 0], "source": [0, 1]}
    tally.add(make_columns(2, {**given, "bytes": [500, 500]}), 3)
    return tally


def test_bytes_of_each_hop() -> None:
    hops = traffic.hop_bytes(tally_of(100), clients_of(Mesh.parse("pp=4,dp=2,cp=2,tp=2")))
    assert hops["storage_to_loader"] == hops["loader_to_constructor"] == 1000
    assert hops["colocated_storage_to_loader"] == 8 * 1000  # every cp and pp place reads again
    boundaries = 2 * 8 * 16
    assert hops["constructor_to_client"] == 200 * 16 * 2 + boundaries
    assert hops["constructor_to_client_with_broadcast"] == 200 * 16 + boundaries


def test_ranks_that_fetch() -> None:
    clients = clients_of(Mesh.parse("pp=4,dp=2,cp=2,tp=2"))
    assert traffic.fetching_ranks(clients) == 16
    assert traffic.fetching_ranks(clients, broadcast=True) == 8
    assert traffic.fetching_ranks(clients_of(Mesh.parse("dp=3"))) == 3


def test_loaders_follow_demand() -> None:
    tally = tally_of(10, patches=10_000)  # 0.15 s of work for source 0
    slow, fast = (traffic.loaders_needed(tally, step) for step in (10.0, 0.01))
    assert (slow["workers"], slow["loaders"]) == (3, 3)  # one each at least
    assert fast["heaviest_source"] == 0 and fast["heaviest_source_workers"] == 19
    assert fast["loaders"] == 3 + 2

"""Values of the config layer: structs of the engine, made of dicts by their one list of fields."""

from __future__ import annotations

from typing import Any

import pytest
from overlord._src.config.field_types import ConfigModel
from overlord._src.lowering.job_spec import lower_runtime
from overlord._src.native import core
from overlord.config import DeliveryConfig, PackingConfig, RuntimeConfig


def runtime_values(**changes: Any) -> dict[str, Any]:
    return {**dict.fromkeys(core.RuntimeOptions.FIELDS), **changes}


def test_a_struct_is_made_of_a_dict_and_tells_its_fields() -> None:
    made = core.RuntimeOptions(runtime_values(threads=7, reporters=[2, 5]))
    assert (made.threads, made.reporters) == (7, [2, 5])
    assert made.runway == core.RuntimeOptions().runway, "None stands for the default"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"threads": 1}, "RuntimeOptions: io_threads is missing"),
        (runtime_values(thread=1), "RuntimeOptions: there is no thread"),
        (runtime_values(threads="many"), r"RuntimeOptions\.threads: wrong type.*'many'"),
        (runtime_values(threads=-1), r"RuntimeOptions\.threads: wrong type or out of range"),
    ],
)
def test_what_does_not_fit_is_told_by_its_key(values: dict[str, Any], told: str) -> None:
    with pytest.raises(core.InvalidArgumentError, match=told):
        core.RuntimeOptions(values)


def test_structs_inside_are_dicts_and_enumerations_are_names() -> None:
    values = dict.fromkeys(core.JobSpec.FIELDS)
    packing = {"method": "pad", "slack_permille": 1, "max_delay_steps": 2}
    made = core.JobSpec({**values, "packing": packing, "leftover": "drop"})
    assert made.packing == packing
    assert made.leftover == "drop"
    with pytest.raises(
        core.InvalidArgumentError, match=r"JobSpec\.packing\.method: one of best_fit"
    ):
        core.JobSpec({**values, "packing": {**packing, "method": "worst"}})
    with pytest.raises(core.InvalidArgumentError, match=r"JobSpec\.sources\[0\]: name is missing"):
        core.JobSpec({**values, "sources": [{}]})


def test_a_config_field_of_the_same_name_is_handed_over() -> None:
    config = RuntimeConfig(io_threads=3, open_files=17)
    assert lower_runtime(config).open_files == 17
    assert lower_runtime(config, threads=9).io_threads == 3


@pytest.mark.parametrize(
    ("config", "key", "native", "field"),
    [
        (PackingConfig, "method", core.JobSpec, "packing"),
        (DeliveryConfig, "cp_slicing", core.DeliverySpec, "slicing"),
        (DeliveryConfig, "token_dtype", core.DeliverySpec, "token_type"),
    ],
)
def test_the_engine_knows_every_choice(
    config: type[ConfigModel], key: str, native: Any, field: str
) -> None:
    for choice in config.model_fields[key].annotation.__args__:  # type: ignore[union-attr]
        value: Any = choice
        if field == "packing":
            value = {"method": choice, "slack_permille": 1, "max_delay_steps": 1}
        made = native({**dict.fromkeys(native.FIELDS), field: value})
        assert getattr(made, field) == value

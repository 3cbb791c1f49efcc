"""JobConfig: the fields of a job, checked against each other."""

from __future__ import annotations

from pydantic import model_validator

from overlord._src.config.checks import find_problems
from overlord._src.config.job_models import JobFields
from overlord._src.errors import ConfigError


class JobConfig(JobFields):
    """Everything a job is: sources, mixture, shape of a step, delivery, limits of the engine."""

    @model_validator(mode="after")
    def _check_meaning(self) -> JobConfig:
        problems = find_problems(self)
        if problems:
            raise ConfigError(problems)
        return self

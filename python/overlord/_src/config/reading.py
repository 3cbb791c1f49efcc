"""From a file, a dict or a model to a checked config, with the place every message points to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from overlord._src.config import yaml_text
from overlord._src.config.energon import expand_metadatasets
from overlord._src.config.job_config import JobConfig
from overlord._src.config.refusals import problems_of
from overlord._src.config.substitution import Overrides, apply_overrides, substitute
from overlord._src.errors import ABSENT, ConfigError, KeyPath, Problem, refused


@dataclass(frozen=True)
class LoadedConfig:
    """A checked config, the folder its relative paths start from, and its key lines."""

    config: JobConfig
    base: Path
    origin: str = ""
    lines: dict[KeyPath, int] = field(default_factory=dict)
    transforms: Mapping[str, Any] = field(default_factory=dict)  # passed to the job, by name

    def refuse(self, problems: Problem | Iterable[Problem]) -> ConfigError:
        """The error for problems found after loading, pointing into the file."""
        return ConfigError(problems, self.origin, self.lines)

    def refused(
        self,
        path: KeyPath,
        wrong: str,
        value: object = ABSENT,
        allowed: str = "",
        advice: str = "",
    ) -> ConfigError:
        """The same for one problem."""
        return self.refuse(Problem(path, wrong, value, allowed, advice))

    @property
    def index_dir(self) -> Path:
        """The folder of the indexes."""
        return self.base / self.config.index_dir

    @property
    def journal_path(self) -> str:
        """The folder of the planner's journal; empty: it is kept in memory."""
        folder = self.config.runtime.journal
        return "" if folder is None else str((self.base / folder).absolute())


ConfigInput = str | os.PathLike[str] | Mapping[str, Any] | JobConfig | LoadedConfig


def read_config(
    config: ConfigInput,
    *,
    overrides: Overrides = (),
    seed: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedConfig:
    """Read, substitute, override and check a config. A string is the path of a YAML file."""
    overrides = overrides if isinstance(overrides, Mapping) else list(overrides)
    if isinstance(config, LoadedConfig):
        if not overrides and seed is None:
            return config
        data: Any = config.config.model_dump(mode="python", exclude_unset=True)
        return _checked(data, config.base, config.origin, {}, overrides, seed)
    if isinstance(config, JobConfig):
        data = config.model_dump(mode="python", exclude_unset=True)
        return _checked(data, Path.cwd(), "", {}, overrides, seed)
    variables = os.environ if environment is None else environment
    if isinstance(config, Mapping):
        return _checked(substitute(dict(config), variables), Path.cwd(), "", {}, overrides, seed)
    path = Path(config)
    origin = os.fspath(path)
    try:
        document = yaml_text.parse(yaml_text.decode_text(_read_bytes(path)))
    except ConfigError as error:
        raise error.at(origin, error.lines) from None
    try:
        data = substitute(document.data, variables)
    except ConfigError as error:
        raise error.at(origin, document.lines) from None
    return _checked(data, path.parent.absolute(), origin, document.lines, overrides, seed)


def _read_bytes(path: Path) -> bytes:
    """The file's bytes, one more than the limit at most."""
    try:
        with path.open("rb") as file:
            return file.read(yaml_text.MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise refused(
            (), f"the config cannot be read: {reason}", advice="give the path of a YAML file"
        ) from None


def _checked(
    data: Any,
    base: Path,
    origin: str,
    lines: dict[KeyPath, int],
    overrides: Mapping[str, object] | list[str],
    seed: int | None,
) -> LoadedConfig:
    if data is None:
        raise ConfigError(
            Problem((), "the config is empty", advice="`overlord init DIR` makes one"), origin
        )
    if not isinstance(data, dict):
        raise ConfigError(Problem((), "the config is not a mapping of keys", data), origin)
    try:
        data = apply_overrides(data, overrides)
    except ConfigError as error:
        raise error.at("override") from None
    if seed is not None:
        data = {**data, "seed": seed}
    try:
        data = expand_metadatasets(data, base)
    except ConfigError as error:
        raise error.at(origin, lines) from None
    try:
        return LoadedConfig(JobConfig.model_validate(data), base, origin, lines)
    except ValidationError as error:
        raise ConfigError(problems_of(error, JobConfig, data), origin, lines) from None

"""The config of a job as typed models; YAML files mirror them, `overlord schema` exports them.

`load` reads a file, fills in `${ENV}` and dotted overrides, and refuses what cannot run with a
`ConfigError` that names key path, value, allowed values and what to do.
"""

from __future__ import annotations

from typing import Any

from overlord._src.config.chat_models import ChatColumnsConfig, ChatConfig, InterleavedConfig
from overlord._src.config.function_models import BatchTransformConfig, ReaderConfig, TransformConfig
from overlord._src.config.job_config import JobConfig
from overlord._src.config.job_models import (
    DeliveryConfig,
    PackingConfig,
    StreamConfig,
    WindowConfig,
)
from overlord._src.config.media_models import MediaConfig, MediaTokensConfig
from overlord._src.config.mixture_models import (
    EpochConfig,
    FeedbackConfig,
    MixtureConfig,
    ScheduleConfig,
    StageConfig,
)
from overlord._src.config.reading import read_config
from overlord._src.config.runtime_models import (
    AblationConfig,
    MetricsConfig,
    ProcessesConfig,
    RuntimeConfig,
    WireConfig,
)
from overlord._src.config.source_models import (
    LimitsConfig,
    SourceConfig,
    SplitConfig,
    TokenizerConfig,
)
from overlord._src.config.strategy_models import (
    BalanceConfig,
    DistributeConfig,
    EncoderBalanceConfig,
    EncoderConfig,
    EncoderDistributeConfig,
    FunctionConfig,
    HybridConfig,
    OrderConfig,
    StrategyConfig,
)
from overlord._src.errors import ConfigError, Problem

__all__ = [
    "AblationConfig",
    "BalanceConfig",
    "BatchTransformConfig",
    "ChatColumnsConfig",
    "ChatConfig",
    "ConfigError",
    "DeliveryConfig",
    "DistributeConfig",
    "EncoderBalanceConfig",
    "EncoderConfig",
    "EncoderDistributeConfig",
    "EpochConfig",
    "FeedbackConfig",
    "FunctionConfig",
    "HybridConfig",
    "InterleavedConfig",
    "JobConfig",
    "LimitsConfig",
    "MediaConfig",
    "MediaTokensConfig",
    "MetricsConfig",
    "MixtureConfig",
    "OrderConfig",
    "PackingConfig",
    "Problem",
    "ProcessesConfig",
    "ReaderConfig",
    "RuntimeConfig",
    "ScheduleConfig",
    "SourceConfig",
    "SplitConfig",
    "StageConfig",
    "StrategyConfig",
    "StreamConfig",
    "TokenizerConfig",
    "TransformConfig",
    "WindowConfig",
    "WireConfig",
    "json_schema",
    "load",
]


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a job file, for editors."""
    schema = JobConfig.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Overlord job"
    return schema


def load(path: Any, overrides: Any = (), seed: int | None = None) -> JobConfig:
    """Read a job's config from a YAML file (or a dict), with overrides, and check it.

    `overrides` is a mapping of dotted keys, or strings like `"mixture.weights.web=0.5"`.
    """
    return read_config(path, overrides=overrides, seed=seed).config

"""Every refusal of a config names key path, value, what is allowed and what to do."""

from __future__ import annotations

import math
from typing import Any

import pytest
from overlord._src.config.reading import read_config
from overlord._src.config.streams import derive_seed, resolve_stream
from overlord.config import ConfigError, JobConfig, json_schema, load


def change(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The config with one value set, or removed for `...`."""
    here = config
    *parents, last = path.split(".")
    for part in parents:
        here = here.setdefault(part, {})
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return config


def refused(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(config)
    return str(caught.value)


def test_good_config_and_defaults(good: dict[str, Any]) -> None:
    config = load(good)
    assert config.packing.method == "best_fit" and config.runtime.prefetch == 3
    assert config.sources["code"].shuffle == "window" and config.index_dir == ".overlord"
    assert isinstance(config, JobConfig)


SEEDS = [-1, 1.0, "7", True, None, 2**64, float("nan")]


@pytest.mark.parametrize("seed", SEEDS)
def test_bad_seeds(seed: Any, good: dict[str, Any]) -> None:
    message = refused(change(good, "seed", seed))
    assert "seed" in message and repr(seed) in message and "0 to 2**64 - 1" in message


def test_missing_seed_and_seed_argument(good: dict[str, Any]) -> None:
    message = refused(change(good, "seed", ...))
    assert "seed: required" in message and "clock" in message and "seed=7" in message
    assert read_config(good, seed=2**64 - 1).config.seed == 2**64 - 1


REFUSALS = [
    # (key path, value, parts of the message)
    ("contxt", 1, ["contxt: unknown key", "did you mean context?"]),
    ("sources.web.formt", "parquet", ["sources.web.formt: unknown key", "did you mean format?"]),
    ("runtime.thread", 4, ["runtime.thread: unknown key", "did you mean threads?"]),
    ("packing.methd", "pad", ["packing.methd", "did you mean method?"]),
    ("sources.web.limits.max_documents", 1, ["did you mean max_document?"]),
    ("streams.valid", {"bin": 4}, ["streams.valid.bin", "did you mean bins?"]),
    ("tokenizers.bpe.paths", "x", ["tokenizers.bpe.paths", "did you mean path?"]),
    ("zzz", 1, ["zzz: unknown key", "remove it"]),
    ("context", ..., ["context: required", "add `context:`"]),
    ("sources", {}, ["sources: empty"]),
    ("sources.web", {"text": "t", "tokenizer": "bpe"}, ["sources.web.files: required"]),
    ("sources.web", "x", ["sources.web: not a mapping", "'x'"]),
    ("bins", "8", ["bins: not an integer", "'8'"]),
    ("bins", 0, ["bins: too small", "at least 1"]),
    ("context", True, ["context: not an integer"]),
    ("packing.method", "best", ["'best'", "best_fit, concat, pad", "did you mean best_fit?"]),
    ("mixture.quota", "exakt", ["exact, multinomial", "did you mean exact?"]),
    ("mixture.unit", "words", ["mixture.unit", "tokens, samples, bytes"]),
    ("packing.slack", 2.0, ["packing.slack", "at most 0.4"]),
    ("packing.slack", 0.0505, ["packing.slack", "0.0505", "steps of 0.001"]),
    ("runtime.prefetch", 0, ["runtime.prefetch", "at least 1", "the minimum is 1"]),
    ("runtime.threads", 0, ["runtime.threads", "at least 1"]),
    ("runtime.payload_budget", "12 parsecs", ["runtime.payload_budget", "256MB"]),
    ("runtime.payload_budget", 0, ["runtime.payload_budget", "at least 1"]),
    ("steps", 0, ["steps: too small", "at least 1"]),
    ("mixture.temperature", 1e-9, ["temperature: too small", "at least 0.01, at most 1000"]),
    ("mixture.temperature", 1e9, ["temperature: too large", "at least 0.01, at most 1000"]),
    ("mixture.temperature", math.nan, ["mixture.temperature"]),
    ("runtime.prefetch", 100_000, ["runtime.prefetch: too large", "at most 1024", "planned"]),
    ("runtime.runway", 100_000, ["runtime.runway: too large", "at most 1024", "planned"]),
    ("runtime.tokenizer_processes", 10_000, ["too large", "at most 256", "each is a process"]),
    ("runtime.threads", 10**6, ["too large", "at most 1024", "each is a thread"]),
    ("runtime.io_threads", 10**6, ["too large", "at most 1024", "each is a thread"]),
    ("runtime.processes.loaders", 10_000, ["at most 256", "each is a process"]),
    ("runtime.processes.constructors", 10_000, ["at most 256", "each is a process"]),
    ("runtime.ablation.uniform_loaders", 10**6, ["too large", "at most 1024", "each has"]),
    ("sources.web.loaders", 10**6, ["sources.web.loaders: too large", "at most 1024", "each has"]),
    ("sources.web.workers", 10**6, ["sources.web.workers: too large", "at most 1024", "each has"]),
    ("index_dir", "in\0dex", ["index_dir: holds a NUL character", "a path"]),
    ("tokenizers.bpe.path", "a\0b", ["tokenizers.bpe.path: holds a NUL character"]),
    ("sources.web.files", ["a\0.parquet"], ["sources.web.files.0: holds a NUL character"]),
    ("substeps", 3, ["substeps", "does not divide bins = 8", "1, 2, 4, 8"]),
    ("align", 7, ["align", "does not divide context = 64", "63 or 70"]),
    ("pad_token", 32000, ["pad_token: not in the vocabulary", "0 to 31999"]),
    ("sources.code.eod", 32000, ["sources.code.eod", "not in the vocabulary"]),
    ("sources.my source", {"files": "x.bin"}, ["not a name", "letters, digits"]),
    ("streams.train", {"bins": 8}, ["streams.train", "top level"]),
]


@pytest.mark.parametrize(("path", "value", "parts"), REFUSALS)
def test_refusals(path: str, value: Any, parts: list[str], good: dict[str, Any]) -> None:
    message = refused(change(good, path, value))
    for part in parts:
        assert part in message


WEIGHTS = [
    ({"web": -0.5, "code": 1.0}, ["mixture.weights.web", "-0.5", "steps 0 and later", ">= 0"]),
    ({"web": math.nan, "code": 1.0}, ["mixture.weights.web", "nan", "source web"]),
    ({"web": math.inf, "code": 1.0}, ["mixture.weights.web", "inf", "finite"]),
    ({"web": 0, "code": 0.0}, ["mixture.weights", "at step 0", "at least one weight > 0"]),
    ({}, ["at step 0"]),
    ({"web": True}, ["mixture.weights.web: not a number"]),
    ({"web": "half"}, ["mixture.weights.web: not a number"]),
    ({"wbe": 1.0}, ["mixture.weights.wbe: no such source", "did you mean web?"]),
    ({"web": 1e-12, "code": 1.0}, ["mixture.weights.web: too small beside the others"]),
]


@pytest.mark.parametrize(("weights", "parts"), WEIGHTS)
def test_bad_weights(weights: Any, parts: list[str], good: dict[str, Any]) -> None:
    message = refused(change(good, "mixture", {"weights": weights}))
    for part in parts:
        assert part in message


def test_a_temperature_that_leaves_a_source_nothing(good: dict[str, Any]) -> None:
    mixture = {"weights": {"web": 1.0, "code": 4.0}, "temperature": 0.02}
    message = refused(change(good, "mixture", mixture))
    assert "mixture.weights.web: too small beside the others" in message
    assert "temperature 0.02" in message


@pytest.mark.parametrize("kind", ["odm", "ado", "rule"])
@pytest.mark.parametrize("stream", ["train", "valid"])
def test_windows_do_not_follow_losses(kind: str, stream: str, good: dict[str, Any]) -> None:
    schedule = {"kind": kind, **({"version": 1} if kind == "rule" else {})}
    mixture = {"weights": {"web": 1.0, "code": 1.0}, "schedule": schedule}
    path = "mixture" if stream == "train" else "streams.valid.mixture"
    config = change(good, path, mixture)
    read_config(config)
    message = refused(change(config, "window", {"steps": 4}))
    assert "window.steps" in message and f"stream {stream}" in message
    assert f"{path}.schedule" in message and "got 4" in message


def stages(*ranges: Any) -> list[dict[str, Any]]:
    return [{"steps": list(steps), "weights": {"web": 1.0}} for steps in ranges]


STAGES = [
    (stages((0, 100), (90, None)), ["overlap", "[0, 100]", "[90, null]"]),
    (stages((0, None), (90, None)), ["overlap", "[0, null]", "[90, null]"]),
    (stages((0, 100), (120, None)), ["steps 100 to 119 have no stage", "[0, 100]", "[120, null]"]),
    (stages((5, None)), ["steps 0 to 4 have no stage"]),
    (stages((0, 100)), ["steps 100 and later have no stage", "no last step"]),
    (stages((5, 5)), ["mixture.stages.0.steps", "holds no step"]),
    (stages((-1, None)), ["mixture.stages.0.steps", "step 0 or later"]),
    (stages((0, 1.5)), ["mixture.stages.0.steps", "two integers"]),
    (stages((0,)), ["mixture.stages.0.steps", "[first, end]"]),
    ([], ["mixture.stages: empty"]),
    (
        [{"steps": [0, 10], "weights": {"web": 1}}, {"steps": [10, None], "weights": {"web": 0}}],
        ["mixture.stages.1.weights", "at step 10"],
    ),
    (
        [{"steps": [0, 10], "weights": {"web": 1}}, {"steps": [10, None], "weights": {"web": -2}}],
        ["mixture.stages.1.weights.web", "steps 10 and later"],
    ),
]


@pytest.mark.parametrize(("value", "parts"), STAGES)
def test_bad_stages(value: Any, parts: list[str], good: dict[str, Any]) -> None:
    message = refused(change(good, "mixture", {"stages": value}))
    for part in parts:
        assert part in message


def test_good_stages(good: dict[str, Any]) -> None:
    change(good, "mixture", {"stages": stages((100, None), (0, 100))})
    assert [stage.steps for stage in load(good).mixture.stage_list()] == [(0, 100), (100, None)]
    change(good, "mixture", {"stages": stages((0, 100))})
    assert load(change(good, "steps", 100)).steps == 100


def test_weights_and_stages_exclude_each_other(good: dict[str, Any]) -> None:
    both = {"weights": {"web": 1}, "stages": stages((0, None))}
    assert "both are given" in refused(change(good, "mixture", both))
    assert "neither is given" in refused(change(good, "mixture", {"unit": "tokens"}))


SOURCES = [
    ({"files": "x.parquet"}, ["sources.web: needs a column", "`text: COLUMN`"]),
    ({"files": "x.parquet", "text": "a", "tokens": "b"}, ["both text and tokens"]),
    ({"files": "x.jsonl", "text": "a"}, ["sources.web.tokenizer: required"]),
    ({"files": "x.jsonl", "text": "a", "tokenizer": "bqe"}, ["'bqe'", "did you mean bpe?"]),
    ({"files": "x.jsonl", "tokens": "a", "tokenizer": "bpe"}, ["holds tokens already"]),
    ({"files": "x.jsonl", "text": "a", "tokenizer": "bpe", "mask": "m"}, ["needs ready tokens"]),
    ({"files": "x.bin", "text": "a"}, ["sources.web.text", "no columns"]),
    ({"files": "x", "tokens": "a"}, ["the suffix tells no format", "add `format:"]),
    ({"files": ["x.bin", "y.parquet"]}, ["several formats"]),
    ({"files": "x.idx", "format": "megatron"}, ["names no .bin file"]),
    ({"files": []}, ["sources.web.files: empty"]),
    ({"files": " ", "format": "jsonl", "tokens": "t"}, ["sources.web.files.0: empty"]),
    ({"files": 3, "tokens": "t"}, ["sources.web.files: not a list"]),
]


@pytest.mark.parametrize(("source", "parts"), SOURCES)
def test_bad_sources(source: Any, parts: list[str], good: dict[str, Any]) -> None:
    message = refused(change(good, "sources.web", source))
    for part in parts:
        assert part in message


@pytest.mark.parametrize("file", ["a.jsonl", "a.jsonl.gz", "a.json.zst", "a.NDJSON"])
def test_formats_by_suffix(file: str, good: dict[str, Any]) -> None:
    from overlord._src.config.checks import source_format

    change(good, "sources.web", {"files": file, "text": "t", "tokenizer": "bytes"})
    assert source_format(load(good).sources["web"]) == "jsonl"


def test_end_policy_is_never_guessed(good: dict[str, Any]) -> None:
    change(good, "at_end", ...)
    message = refused(good)
    assert "sources.code.at_end" in message and "sources.web.at_end" in message
    assert "repeat, drop, stop" in message and "top level" in message
    good["sources"]["web"]["at_end"] = "stop"
    good["mixture"]["weights"]["code"] = 0
    assert load(good).sources["web"].at_end == "stop"


def test_passwords_in_urls_are_refused_and_hidden(good: dict[str, Any]) -> None:
    good["sources"]["web"]["files"] = "s3://key:hunter2@bucket/web/*.parquet"
    message = refused(good)
    assert "sources.web.files.0" in message and "hunter2" not in message and "***" in message
    good["sources"]["web"]["files"] = {"s3://key:hunter2@bucket": 1}
    assert "hunter2" not in refused(good)


def test_uint16_needs_a_small_vocabulary(good: dict[str, Any]) -> None:
    change(good, "delivery.token_dtype", "uint16")
    assert load(change(good, "vocabulary", 65536)).vocabulary == 65536
    message = refused(change(good, "vocabulary", 65537))
    assert "delivery.token_dtype" in message and "65537" in message and "int32" in message


def test_all_problems_come_at_once(good: dict[str, Any]) -> None:
    good["contxt"], good["runtime"] = 1, {"prefetch": 0}
    message = refused(good)
    assert message.startswith("2 problems") and "contxt" in message and "prefetch" in message


def test_config_error_is_a_value_error(good: dict[str, Any]) -> None:
    good["bins"] = 0
    with pytest.raises(ValueError, match="bins: too small"):
        load(good)


def test_streams_inherit_and_override(good: dict[str, Any]) -> None:
    good["streams"] = {"valid": {"bins": 4, "steps": 10, "mixture": {"weights": {"code": 1}}}}
    good["steps"] = 100
    config = load(good)
    train, valid = resolve_stream(config, "train"), resolve_stream(config, "valid")
    assert (train.bins, train.steps, train.seed) == (8, 100, 7)
    assert (valid.bins, valid.steps, valid.context) == (4, 10, 64)
    assert valid.seed == derive_seed(7, "valid") and valid.mixture.source_names() == ["code"]
    assert valid.path_of("bins") == ("streams", "valid", "bins")
    with pytest.raises(ConfigError, match="did you mean valid"):
        resolve_stream(config, "valdi")


def test_problems_of_streams_have_their_path(good: dict[str, Any]) -> None:
    good["streams"] = {"valid": {"bins": 9, "substeps": 2, "mixture": {"weights": {"web": -1}}}}
    message = refused(good)
    assert "streams.valid.mixture.weights.web" in message and "streams.valid.substeps" in message


def test_schema_names_every_key() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert {"job", "seed", "sources", "mixture"} <= set(schema["properties"])
    assert set(schema["required"]) == {
        "job",
        "seed",
        "context",
        "bins",
        "vocabulary",
        "mixture",
        "sources",
    }
    source = schema["$defs"]["SourceConfig"]
    assert source["properties"]["shuffle"]["enum"] == ["none", "window", "full"]
    described = [
        item for model in schema["$defs"].values() for item in model["properties"].values()
    ]
    assert all("description" in item for item in described)

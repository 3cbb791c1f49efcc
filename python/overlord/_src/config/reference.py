"""The reference of all config keys as Markdown tables, made from the models."""

from __future__ import annotations

from typing import Any

from overlord.config import json_schema

# In the order of the tables.
_TITLES = {
    "JobConfig": "Top level",
    "BinsStageConfig": "`bins[]`",
    "SourceConfig": "`sources.NAME`",
    "DocumentConfig": "`sources.NAME.document`",
    "ChatConfig": "`sources.NAME.chat`",
    "ChatColumnsConfig": "`sources.NAME.chat.columns`",
    "InterleavedConfig": "`sources.NAME.interleaved`",
    "MediaConfig": "`sources.NAME.media.FIELD`",
    "MediaTokensConfig": "`sources.NAME.media.FIELD.tokens`",
    "SplitConfig": "`sources.NAME.split`",
    "LimitsConfig": "`sources.NAME.limits`",
    "TransformConfig": "`sources.NAME.transform`, `sources.NAME.media.FIELD.function`",
    "ReaderConfig": "`sources.NAME.reader`",
    "BatchTransformConfig": "`batch_transform`",
    "TokenizerConfig": "`tokenizers.NAME`",
    "MixtureConfig": "`mixture`",
    "EpochConfig": "`mixture.epoch`",
    "StageConfig": "`mixture.stages[]`",
    "ScheduleConfig": "`mixture.schedule`",
    "FeedbackConfig": "`mixture.feedback`",
    "PackingConfig": "`packing`",
    "WindowConfig": "`window`",
    "StrategyConfig": "`strategy`",
    "DistributeConfig": "`strategy.distribute`",
    "BalanceConfig": "`strategy.balance`",
    "OrderConfig": "`strategy.order`",
    "HybridConfig": "`strategy.hybrid`",
    "FunctionConfig": "`strategy.balance.python`, `strategy.plan_raw`",
    "EncoderConfig": "`strategy.encoder`",
    "EncoderDistributeConfig": "`strategy.encoder.distribute`",
    "EncoderBalanceConfig": "`strategy.encoder.balance`",
    "DeliveryConfig": "`delivery`",
    "RuntimeConfig": "`runtime`",
    "ProcessesConfig": "`runtime.processes`",
    "WireConfig": "`runtime.wire`",
    "MetricsConfig": "`runtime.metrics`",
    "AblationConfig": "`runtime.ablation`",
    "StreamConfig": "`streams.NAME`",
}


_KINDS = {
    "integer": "integer",
    "number": "number",
    "string": "text",
    "boolean": "true, false",
    "array": "list",
}
_WIDE = 2**31 - 1  # bounds that only say how a number is kept


def reference_tables() -> str:
    """One table per model: key, type, default, meaning."""
    schema = json_schema()
    models = {**schema["$defs"], "JobConfig": schema}
    parts = []
    for name, title in _TITLES.items():
        model = models[name]
        lines = [
            f"## {title}",
            "",
            _first_paragraph(model),
            "",
            "| key | type | default | meaning |",
            "|---|---|---|---|",
        ]
        required = model.get("required", [])
        for key, field in model["properties"].items():
            default = "required" if key in required else _show_default(field)
            lines.append(f"| `{key}` | {_show_type(field)} | {default} | {field['description']} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _first_paragraph(model: dict[str, Any]) -> str:
    text = str(model.get("description", ""))
    return " ".join(text.split("\n\n")[0].split())


def _show_default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default is None:
        return "none"
    if isinstance(default, dict | list):
        return "`{}`" if isinstance(default, dict) else "`[]`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, int) and default >= 1 << 20 and default % (1 << 20) == 0:
        return f"`{default >> 20}MiB`"
    return f"`{default}`"


def _show_type(field: dict[str, Any]) -> str:
    if "$ref" in field or "allOf" in field:
        return "mapping"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        shown = [_show_type(item) for item in field["anyOf"] if item.get("type") != "null"]
        return " or ".join(dict.fromkeys(shown))
    if field.get("type") == "object":
        return "mapping by name"
    kind = _KINDS.get(str(field.get("type")), "")
    return kind + _show_range(field) if kind in ("integer", "number") else kind


def _show_range(field: dict[str, Any]) -> str:
    """The bounds of a number, where both say something."""
    low, high = field.get("minimum"), field.get("maximum")
    if low is None or high is None or high >= _WIDE:
        return ""
    return f", {low:g} to {high:g}" if isinstance(high, float) else f", {low} to {high}"

"""Media fields of a source as typed models: where the bytes are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from overlord._src.config.field_types import ConfigModel, Count32, Files, Token, refused_value
from overlord._src.config.function_models import TransformField

_STEP_FORM = "a name, text like `resize_short side=256`, or a mapping of one name to its options"


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    if isinstance(value, list | tuple):
        return ",".join(_value_text(item) for item in value)
    raise refused_value("an option is no value", "numbers, names, true, false, or a list of them")


def _step_text(step: Any) -> str:
    if isinstance(step, str):
        return step
    if not isinstance(step, Mapping) or len(step) != 1:
        raise refused_value("not a step", _STEP_FORM)
    name, options = next(iter(step.items()))
    if options is not None and not isinstance(options, Mapping):
        raise refused_value(f"options of {name} are no mapping", _STEP_FORM)
    pairs = (f"{key}={_value_text(value)}" for key, value in (options or {}).items())
    return " ".join((str(name), *pairs))


def transform_text(value: Any) -> Any:
    """The text form of a transform, out of text or of a list of steps."""
    return "; ".join(_step_text(step) for step in value) if isinstance(value, list) else value


Transform = Annotated[
    str,
    BeforeValidator(transform_text),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1}]}),
]


MediaKind = Literal["image", "audio", "video"]
# The metadata column of a kind beside NAME_count.
UNITS: dict[MediaKind, str] = {"image": "patches", "audio": "frames", "video": "patches"}


class MediaTokensConfig(ConfigModel):
    """Tokens that stand for the media of a document; none of them carries loss."""

    pad: Token = Field(description="the placeholder, once for each of the item's tokens")
    before: Token | None = Field(default=None, description="put before the placeholders")
    after: Token | None = Field(default=None, description="put after the placeholders")
    count: Count32 | None = Field(
        default=None,
        description="placeholders of a picture, tile, sound or chunk; absent: what `transform` "
        "says, so pictures need patchify there, and sounds log_mel",
    )
    every: Count32 | None = Field(
        default=None,
        description="instead of `count`: one placeholder for every so many patches or frames of a "
        "tile or chunk, rounded up",
    )
    place: Literal["before", "text"] = Field(
        default="before",
        description="before: ahead of the text; text: the row's own tokens have `pad` once per "
        "blob, and the placeholders take its place",
    )


class MediaConfig(ConfigModel):
    """Where the bytes of a media field are, and what becomes of them in the stream."""

    from_: Files = Field(
        alias="from",
        description="webdataset: member extensions, the first that a sample has counts; "
        "Parquet and Arrow: one column, of bytes, of struct{bytes, path}, or of paths of files "
        "beside the shard; MDS: one column of pictures or bytes; Megatron: the mode of their "
        "sequences",
    )
    many: bool = Field(
        default=False,
        description="any number of blobs per row, in order; webdataset: members NUMBER.EXTENSION; "
        "Parquet: a list of what else is one",
    )
    kind: MediaKind = Field(default="image", description="what the bytes are")
    transform: Transform | None = Field(
        default=None,
        description="steps from the stored bytes to what batches carry, as text or as a list; "
        "absent: the bytes do not travel",
    )
    function: TransformField | None = Field(
        default=None,
        description="a Python function of your own over what `transform` gives, same shapes out",
    )
    tokens: MediaTokensConfig | None = Field(
        default=None, description="its place among the document's tokens; absent: it has none"
    )


def _whole(value: Any) -> Any:
    return value if isinstance(value, Mapping | MediaConfig) else {"from": value}


MediaField = Annotated[MediaConfig, BeforeValidator(_whole)]

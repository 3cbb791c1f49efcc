"""Schemas of rows that are not one text column, as typed models: chat and interleaved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from overlord._src.config.field_types import ConfigModel, Text

Part = Literal["image", "audio", "video"]


def _format_alone(value: Any) -> Any:
    return {"format": value} if isinstance(value, str) else value


def _date_text(value: Any) -> Any:
    # YAML reads an unquoted date as one.
    return value.isoformat() if hasattr(value, "isoformat") else value


class ChatColumnsConfig(ConfigModel):
    """Which columns a row of several is made of, where they have other names than these."""

    instruction: Text | None = Field(default=None, description="alpaca: what is asked; required")
    output: Text | None = Field(default=None, description="alpaca: the answer; required")
    input: Text | None = Field(
        default=None,
        description="alpaca: more about the question, put behind it after an empty line; absent: "
        "`input`, where rows have it",
    )
    system: Text | None = Field(default=None, description="alpaca: a system message")
    prompt: Text | None = Field(
        default=None,
        description="prompt, completion: what is asked; required. preference: absent: `prompt`, "
        "where rows have it, else what both answers begin with",
    )
    completion: Text | None = Field(default=None, description="completion: the answer; required")
    chosen: Text | None = Field(default=None, description="preference: the better answer; required")
    rejected: Text | None = Field(
        default=None, description="preference: the worse answer; required"
    )


class ChatConfig(ConfigModel):
    """Rows that are conversations; `chat: messages` is short for the format alone."""

    format: Literal["messages", "sharegpt", "alpaca", "prompt", "completion", "preference"] = Field(
        default="messages",
        description="messages: list of {role, content}; sharegpt: list of {from, value}; alpaca: "
        "columns of text; prompt: what is asked alone, without loss; completion: `prompt` and "
        "`completion`; preference: `chosen` and `rejected`, each a document, which stay together",
    )
    column: Text | None = Field(
        default=None,
        description="the list, or its JSON as text; absent: `messages`, sharegpt: `conversations`",
    )
    columns: ChatColumnsConfig | None = Field(
        default=None,
        description="formats of several columns: which they are, where they have other names",
    )
    tools: Text | None = Field(
        default=None, description="column of tools that the template is given: a list, or its JSON"
    )
    template: Text = Field(
        default="tokenizer",
        description="tokenizer: what lies beside tokenizer.json (chat_template.jinja, or "
        "chat_template of tokenizer_config.json); chatml: the built-in one; none: rows of prompt, "
        "completion and preference are plain text; else the path of a Jinja file",
    )
    loss: Literal["answers", "all"] = Field(
        default="answers", description="which tokens carry loss: those of the assistant, or all"
    )
    roles: dict[str, Text] = Field(
        default={}, description="more roles that rows have, and what the template calls them"
    )
    markers: dict[Part, Text] = Field(
        default={},
        description="text in place of image, audio or video parts that the template does not know",
    )
    parts: dict[Part, Text] = Field(
        default={},
        description="text of a message that stands for an image, audio or video, like "
        '`{image: "<image>"}` in LLaVA\'s rows: it becomes a part of that type',
    )
    variables: dict[str, Any] = Field(
        default={}, description="what the template sees beside messages, tools and special tokens"
    )
    date: Annotated[
        Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None, BeforeValidator(_date_text)
    ] = Field(
        default=None,
        description="YYYY-MM-DD that a template gets which asks for today; absent: it is refused",
    )


class InterleavedConfig(ConfigModel):
    """Rows that are two lists in step, texts and images: one of the two is null at each place."""

    texts: Text = Field(default="texts", description="column with the list of texts")
    images: Text = Field(default="images", description="column with the list of images")
    marker: Text = Field(description="text in place of an image, like `<image>`")
    separator: str = Field(default="", description="text between two places")


Chat = Annotated[ChatConfig, BeforeValidator(_format_alone)]

"""Conversations to text: a chat template rendered as Hugging Face renders it, answers marked.

Used by the tokenizer worker, which runs without the package, and by the checks of a config; so it
imports nothing of ours. Settings are one JSON object:

  format      messages | sharegpt | alpaca | prompt | completion | preference: what a row is
  columns     what the format wants -> the column's name
  template    the template's text; "" for rows that are plain text
  loss        answers | all
  roles       a row's role -> the template's
  markers     image | audio | video -> text, for templates that have no place for such a part
  parts       image | audio | video -> text of a message that stands for such a part; may be absent
  variables   what the template sees beside the conversation
  date        YYYY-MM-DD that stands for today; null: a template that asks for today is refused
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.parser
    import jinja2.sandbox
except ImportError as missing:  # jinja2 is an extra: only chat needs it
    raise ImportError(
        "chat templates need the package jinja2; install it with: pip install 'overlord-data[chat]'"
    ) from missing

Message = dict[str, Any]
Span = tuple[int, int]

ANSWER_ROLE = "assistant"
ROLES = {
    "messages": {role: role for role in ("system", "developer", "user", "assistant", "tool")},
    "sharegpt": {
        "system": "system",
        "human": "user",
        "user": "user",
        **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), ANSWER_ROLE),
        "tool": "tool",
        "observation": "tool",
        "function_response": "tool",
    },
    "alpaca": {},
}
ROLES.update(dict.fromkeys(("prompt", "completion", "preference"), ROLES["messages"]))
FIELDS = {"sharegpt": ("from", "value")}  # others: role and content
BRANCHES = ("chosen", "rejected")  # of a preference, each a row with a digit in front
MEDIA = ("image", "audio", "video")
PART_TYPES = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
    "video": "video",
    "video_url": "video",
}
MAX_PREFIXED_MESSAGES = 1024  # finding answers by prefixes renders a conversation once per answer
SHOWN = 200

_MARKS = [chr(point) for point in range(0xFDD0, 0xFDF0)]  # noncharacters: never part of a text
_PROBE = "overlordprobe"
_PROBE_ANSWER = "overlordanswer"

CHATML = """\
{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\\n' }}
{%- if message['role'] == 'assistant' -%}
{%- generation -%}{{ (message['content'] or '') + '<|im_end|>' }}{%- endgeneration -%}
{%- else -%}
{{ (message['content'] or '') + '<|im_end|>' }}
{%- endif -%}
{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""


class RowError(ValueError):
    """Why one row cannot be used; the others can."""


class TemplateError(Exception):
    """Why a template cannot be used with any row."""


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` ... `{% endgeneration %}`: what lies between is an answer."""

    tags = {"generation"}  # noqa: RUF012 - the name and kind that jinja2 wants

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self.used = False
        self.marks = ("", "")

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        """One block of the template."""
        self.used = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

    def _marked(self, caller: Callable[[], str]) -> str:
        return self.marks[0] + caller() + self.marks[1]


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without the fields that have no value; columns of a file have them all."""
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        twice = next(name for name, _ in pairs if sum(name == other for other, _ in pairs) > 1)
        raise RowError(f"field {_shown(twice)!r} appears twice in one object")
    return {name: value for name, value in pairs if value is not None}


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_members)
    except RowError:
        raise
    except (ValueError, RecursionError) as error:
        raise RowError(f"{what} is no JSON: {_shown(str(error))}") from None


class ChatRenderer:
    """A template with its settings: rows to text."""

    def __init__(self, settings: str) -> None:
        chosen: dict[str, Any] = json.loads(settings)
        self._format: str = chosen["format"]
        self._columns: dict[str, str] = chosen["columns"]
        self._loss: str = chosen["loss"]
        self._roles = {**ROLES[self._format], **chosen["roles"]}
        self._markers: dict[str, str] = chosen["markers"]
        self._variables: dict[str, Any] = chosen["variables"]
        parts: dict[str, str] = chosen.get("parts", {})
        self._kinds = {marker: kind for kind, marker in parts.items()}
        # The longest first: a marker may begin like another one.
        markers = sorted(self._kinds, key=len, reverse=True)
        self._part_marker = re.compile("(" + "|".join(map(re.escape, markers)) + ")")
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, "jinja2.ext.loopcontrols"],
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        if chosen["date"] is not None:
            environment.globals["strftime_now"] = datetime.datetime.fromisoformat(
                chosen["date"]
            ).strftime
        self._eos = self._variables.get("eos_token")
        self._generation = next(
            extension
            for extension in environment.extensions.values()
            if isinstance(extension, _Generation)
        )
        self._plain = not chosen["template"]
        try:
            self._template = environment.from_string(chosen["template"])
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"line {error.lineno}: {error.message}") from None
        if self._plain:
            self._takes_parts, self._takes_text, self._media = False, True, set[str]()
        else:
            self._probe()

    # -- what a template can do ------------------------------------------------------------------

    def _tried(self, messages: list[Message]) -> str | None:
        try:
            return self._rendered(messages, None, False)
        except RowError as error:
            if "strftime_now" in str(error):
                raise TemplateError(
                    "it asks for today's date, and a stream must not depend on the day it is made; "
                    "set `date:`"
                ) from None
            return None

    def _probe(self) -> None:
        """Which forms of content the template knows; refuse one that answers cannot be found in."""
        as_text = self._tried([{"role": "user", "content": _PROBE}])
        part = {"type": "text", "text": _PROBE}
        as_parts = self._tried([{"role": "user", "content": [part]}])
        self._takes_parts = (
            as_parts is not None and _PROBE in as_parts and "'text':" not in as_parts
        )
        self._takes_text = not self._takes_parts or (as_text is not None and _PROBE in as_text)
        self._media = {
            kind
            for kind in MEDIA
            if self._takes_parts
            and self._tried([{"role": "user", "content": [{"type": kind}, part]}])
            not in (None, as_parts)
        }
        if self._loss != "answers" or self._generation.used:
            return
        question, answer = (
            {"role": role, "content": text if self._takes_text else [{**part, "text": text}]}
            for role, text in (("user", _PROBE), (ANSWER_ROLE, _PROBE_ANSWER))
        )
        try:
            text, ((begin, end),) = self._spans_by_prefix([question, answer], None)
        except RowError as error:
            if "prefix" in str(error):
                raise TemplateError(str(error)) from None
            return  # it wants another kind of conversation; rows will tell
        if _PROBE_ANSWER not in text[begin:end]:
            raise TemplateError("what it makes of a question and an answer has no answer in it")

    # -- a row to a conversation -----------------------------------------------------------------

    def _conversation(self, row: str) -> tuple[list[Message], list[Any] | None]:
        record = _parsed(row, "the row")
        if self._format == "alpaca":
            return self._from_alpaca(record), None
        column = self._columns["messages"]
        value = record.get(column)
        if isinstance(value, str):
            value = _parsed(value, f"column {column!r}")
        return self._messages(column, value), self._tools(record)

    def _messages(self, column: str, value: Any) -> list[Message]:
        if not isinstance(value, list) or not value:
            raise RowError(f"column {column!r} is {'an empty' if value == [] else 'no'} list")
        return [self._message(place, item) for place, item in enumerate(value)]

    def _tools(self, record: dict[str, Any]) -> list[Any] | None:
        column = self._columns.get("tools")
        tools = record.get(column) if column is not None else None
        if isinstance(tools, str) and tools.strip():
            tools = _parsed(tools, f"column {column!r}")
        if not tools:
            return None
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise RowError(f"column {column!r} is no list of objects")
        return tools

    def _from_alpaca(self, record: dict[str, Any]) -> list[Message]:
        texts: dict[str, str] = {}
        for name, column in self._columns.items():
            text = record.get(column, "")
            if not isinstance(text, str):
                raise RowError(f"column {column!r} is no text")
            texts[name] = text
        for name in ("instruction", "output"):
            if not texts[name].strip():
                raise RowError(f"column {self._columns[name]!r} is empty")
        question = texts["instruction"]
        if texts.get("input", "").strip():
            question += "\n\n" + texts["input"]
        messages: list[Message] = [
            {"role": "user", "content": question},
            {"role": ANSWER_ROLE, "content": texts["output"]},
        ]
        if texts.get("system", "").strip():
            messages.insert(0, {"role": "system", "content": texts["system"]})
        for place, message in enumerate(messages):
            message["content"] = self._content(place, message)
        return messages

    def _message(self, place: int, item: Any) -> Message:
        if not isinstance(item, dict):
            raise RowError(f"message {place} is no object")
        role_field, content_field = FIELDS.get(self._format, ("role", "content"))
        given = item.get(role_field)
        if not isinstance(given, str):
            raise RowError(f"message {place} has no {role_field!r}")
        role = self._roles.get(given)
        if role is None:
            raise RowError(
                f"message {place} has the unknown role {_shown(given)!r}; known: "
                + ", ".join(sorted(self._roles))
            )
        message = {**item}
        message.pop(role_field)
        message = {"role": role, "content": message.pop(content_field, None), **message}
        message["content"] = self._content(place, message)
        return message

    def _content(self, place: int, message: Message) -> Any:
        content, role = message["content"], message["role"]
        name = f"message {place} ({role})"
        if content is None:
            if role == ANSWER_ROLE and message.get("tool_calls"):
                return None
            raise RowError(f"{name} has no content")
        if isinstance(content, str):
            if (
                not content.strip()
                and role in ("user", ANSWER_ROLE)
                and "tool_calls" not in message
            ):
                raise RowError(f"{name} is empty")
            if self._kinds and self._part_marker.search(content):
                return self._joined([self._part(name, part) for part in self._cut(content)])
            return content if self._takes_text else [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            raise RowError(f"{name} has content that is neither text nor a list of parts")
        return self._joined([self._part(name, part) for part in content])

    def _cut(self, content: str) -> list[dict[str, Any]]:
        """A text with markers as parts."""
        pieces = [piece for piece in self._part_marker.split(content) if piece]
        return [
            {"type": self._kinds[piece]}
            if piece in self._kinds
            else {"type": "text", "text": piece}
            for piece in pieces
        ]

    def _joined(self, parts: list[dict[str, Any]]) -> Any:
        return parts if self._takes_parts else "".join(part["text"] for part in parts)

    def _part(self, name: str, part: Any) -> dict[str, Any]:
        """A part as the template knows it; one that it does not know is its marker."""
        given = part.get("type") if isinstance(part, dict) else None
        kind = PART_TYPES.get(given) if isinstance(given, str) else None
        if kind is None:
            raise RowError(f"{name} has a part of unknown type {_shown(given)!r}")
        if kind == "text":
            if not isinstance(part.get("text"), str):
                raise RowError(f"{name} has a text part without text")
            return {**part, "type": "text"}
        if kind in self._media:
            return {**part, "type": kind}
        if kind not in self._markers:
            raise RowError(
                f"{name} has a part of type {kind}, which the template has no place for; "
                f"set `markers: {{{kind}: ...}}`"
            )
        return {"type": "text", "text": self._markers[kind]}

    # -- a conversation to text ------------------------------------------------------------------

    def _rendered(self, messages: list[Message], tools: list[Any] | None, prompt: bool) -> str:
        try:
            return self._template.render(
                {
                    **self._variables,
                    "messages": messages,
                    "tools": tools,
                    "documents": None,
                    "add_generation_prompt": prompt,
                }
            )
        except MemoryError:
            raise
        except jinja2.UndefinedError as error:
            raise RowError(f"the template fails: {_shown(str(error))}") from None
        except jinja2.TemplateError as error:
            raise RowError(f"the template refuses it: {_shown(str(error))}") from None
        except Exception as error:
            raise RowError(
                f"the template fails: {type(error).__name__}: {_shown(str(error))}"
            ) from None

    def _spans_by_prefix(
        self, messages: list[Message], tools: list[Any] | None
    ) -> tuple[str, list[Span]]:
        """An answer is what it adds to the conversation before it, with the prompt to give it."""
        if len(messages) > MAX_PREFIXED_MESSAGES:
            raise RowError(
                f"has {len(messages)} messages; without {{% generation %}} in the template "
                f"answers are found in up to {MAX_PREFIXED_MESSAGES}"
            )
        text = self._rendered(messages, tools, False)
        spans = []
        for place, message in enumerate(messages):
            if message["role"] != ANSWER_ROLE:
                continue
            before = self._rendered(messages[:place], tools, True)
            after = text
            if place + 1 < len(messages):
                after = self._rendered(messages[: place + 1], tools, False)
            if not after.startswith(before) or not text.startswith(after):
                raise RowError(
                    f"where answer {place} is cannot be told: what the template makes of the "
                    "messages before it is no prefix of what it makes of all; mark answers with "
                    "{% generation %} in the template, or set `loss: all`"
                )
            spans.append((len(before), len(after)))
        return text, spans

    def _spans_by_marks(
        self, row: str, messages: list[Message], tools: list[Any] | None
    ) -> tuple[str, list[Span]]:
        seen = row
        if "\\ufd" in row.lower():  # JSON inside a text may have them in another form
            seen += self._rendered(messages, tools, False)
        free = [mark for mark in _MARKS if mark not in seen]
        if len(free) < 2:
            raise RowError("has noncharacters (U+FDD0 to U+FDEF) in its text")
        begin, end = self._generation.marks = (free[0], free[1])
        try:
            marked = self._rendered(messages, tools, False)
        finally:
            self._generation.marks = ("", "")
        pieces: list[str] = []
        spans: list[Span] = []
        length, depth, opened = 0, 0, 0
        for piece in re.split(f"([{begin}{end}])", marked):
            if piece == begin:
                opened, depth = (opened if depth else length), depth + 1
            elif piece == end:
                depth -= 1
                if depth == 0:
                    spans.append((opened, length))
            else:
                pieces.append(piece)
                length += len(piece)
        if depth != 0:
            raise RowError("the template cuts a {% generation %} block")
        return "".join(pieces), spans

    # -- prompts, and what follows them ----------------------------------------------------------

    def _value(self, record: dict[str, Any], name: str) -> Any:
        """A column of text or of messages, these also as JSON."""
        column = self._columns.get(name, name)
        value = record.get(column)
        if isinstance(value, str) and value.lstrip().startswith("[{"):
            parsed = _parsed(value, f"column {column!r}")
            return parsed if isinstance(parsed, list) else value
        if value is None or isinstance(value, str | list):
            return value
        raise RowError(f"column {column!r} is neither text nor a list of messages")

    def _needed(self, record: dict[str, Any], name: str) -> Any:
        value = self._value(record, name)
        if not value:
            raise RowError(f"column {self._columns.get(name, name)!r} is empty")
        return value

    def _prompted(self, row: str) -> tuple[str, list[Span]]:
        """A prompt alone, which carries no loss; or with what follows it, which does."""
        if self._format == "preference":
            record, branch = _parsed(row[1:], "the row"), int(row[0])
            prompt, *endings = self._preference(record)
            # A row that has one branch alone is of no use: each is bad if the other is.
            return [self._with_ending(prompt, ending, record) for ending in endings][branch]
        record = _parsed(row, "the row")
        prompt = self._needed(record, "prompt")
        if self._format == "completion":
            return self._with_ending(prompt, self._needed(record, "completion"), record)
        if isinstance(prompt, str):
            return prompt, []
        messages = self._messages(self._columns["prompt"], prompt)
        if self._plain:
            raise RowError("is a conversation, and `template: none` is for plain text")
        return self._rendered(messages, self._tools(record), True), []

    def _preference(self, record: dict[str, Any]) -> tuple[Any, Any, Any]:
        """Prompt, chosen and rejected; a prompt that is none is what both begin with."""
        prompt = self._value(record, "prompt")
        chosen, rejected = (self._needed(record, branch) for branch in BRANCHES)
        if type(chosen) is not type(rejected):
            raise RowError("has a text and a conversation to choose from")
        # Some rows have a prompt for people beside conversations that begin with it.
        if prompt and type(prompt) is type(chosen):
            return prompt, chosen, rejected
        same, most = 0, min(len(chosen), len(rejected))
        while same < most and chosen[same] == rejected[same]:
            same += 1
        if same == most:
            raise RowError("has a chosen and a rejected answer that do not differ")
        if isinstance(chosen, str) and same > 0 and chosen[same - 1] == " ":
            same -= 1  # the space belongs to the word behind it
        return chosen[:same], chosen[same:], rejected[same:]

    def _with_ending(
        self, prompt: Any, ending: Any, record: dict[str, Any]
    ) -> tuple[str, list[Span]]:
        if isinstance(ending, str) and isinstance(prompt, str):
            if not ending.strip():
                raise RowError("has an answer without a letter")
            if isinstance(self._eos, str) and not ending.endswith(self._eos):
                ending += self._eos
            return prompt + ending, [(len(prompt), len(prompt) + len(ending))]
        if self._plain:
            raise RowError("is a conversation, and `template: none` is for plain text")
        before = _as_messages(prompt, "user")
        messages = self._messages("messages", before + _as_messages(ending, ANSWER_ROLE))
        tools = self._tools(record)
        text, spans = self._spans(json.dumps(messages), messages, tools)
        answers = [place for place, one in enumerate(messages) if one["role"] == ANSWER_ROLE]
        if len(spans) != len(answers):
            raise RowError(
                f"has {len(answers)} answers of which the template marks {len(spans)}: which of "
                "them follow the prompt cannot be told"
            )
        # Answers of earlier turns belong to the prompt.
        spans = [span for span, at in zip(spans, answers, strict=True) if at >= len(before)]
        spans = [span for span in spans if span[0] < span[1]]
        if not spans:
            raise RowError(f"has no answer: nothing of role {ANSWER_ROLE} follows the prompt")
        return text, spans

    def _spans(
        self, row: str, messages: list[Message], tools: list[Any] | None
    ) -> tuple[str, list[Span]]:
        if self._generation.used:
            return self._spans_by_marks(row, messages, tools)
        return self._spans_by_prefix(messages, tools)

    def render(self, row: str) -> tuple[str, list[Span] | None]:
        """The text of a row, and where its answers are; None: all of it carries loss."""
        if self._format in ("prompt", "completion", "preference"):
            text, ends = self._prompted(row)
            return text, None if self._loss == "all" else ends
        messages, tools = self._conversation(row)
        if self._loss == "all":
            return self._rendered(messages, tools, False), None
        text, spans = self._spans(row, messages, tools)
        spans = [span for span in spans if span[0] < span[1]]
        if not spans:
            raise RowError(f"has no answer: nothing of role {ANSWER_ROLE} carries loss")
        return text, spans


def _as_messages(value: Any, role: str) -> list[Any]:
    """A column of a prompt or an answer as messages; a text is one message."""
    if isinstance(value, str):
        return [{"role": role, "content": value}] if value else []
    return list(value)


def token_mask(offsets: Sequence[Span], spans: list[Span] | None) -> bytearray:
    """One byte per token: 1 where it has a character of an answer. `spans` rise."""
    if spans is None:
        return bytearray(b"\1") * len(offsets)
    mask = bytearray(len(offsets))
    place, last = 0, len(spans)
    for token, (begin, end) in enumerate(offsets):
        while place < last and spans[place][1] <= begin:
            place += 1
        if place == last:
            break
        if begin < end and spans[place][0] < end:
            mask[token] = 1
    return mask

"""Chat and interleaved rows in the engine's own values: the template found, its settings frozen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from overlord._src.config.chat import COLUMNS, NEEDED, branches_of
from overlord._src.config.columns import base_name

if TYPE_CHECKING:
    from overlord._src.config.chat_models import ChatConfig
    from overlord._src.config.reading import LoadedConfig
    from overlord._src.config.source_models import SourceConfig

MOST_SETTINGS = 120_000  # one argument of a process holds 128 KiB
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_TAKEN_WHERE_THERE = {"alpaca": ("input",), "preference": ("prompt",)}
_CHATML_TOKENS = ("<|im_start|>", "<|im_end|>")


def lower_schema(config: SourceConfig) -> dict[str, Any] | None:
    """How the text of a row is made; None of a source with one column."""
    if config.interleaved is not None:
        return {
            "text": "interleaved",
            "columns": [config.interleaved.texts, config.interleaved.images],
            "required": 2,
            "expected": 2,
            "marker": config.interleaved.marker,
            "separator": config.interleaved.separator,
            "masked": False,
            "branches": 1,
        }
    if config.chat is None:
        return None
    columns, required, expected = _columns(config.chat)
    return {
        "text": "record",
        "columns": list(columns.values()),
        "required": required,
        "expected": expected,
        "marker": "",
        "separator": "",
        "masked": config.chat.loss == "answers",
        "branches": branches_of(config),
    }


def _columns(chat: ChatConfig) -> tuple[dict[str, str], int, int]:
    """What the format wants and where it lies: first what every row has, then what is declared."""
    names = COLUMNS.get(chat.format)
    if names is None:
        default = "messages" if chat.format == "messages" else "conversations"
        columns = {"messages": chat.column or default}
        if chat.tools is not None:
            columns["tools"] = chat.tools
        return columns, 1, len(columns)
    declared = chat.columns.model_dump(exclude_none=True) if chat.columns is not None else {}
    needed = NEEDED[chat.format]
    columns = {name: declared.pop(name, name) for name in names[:needed]}
    columns.update({name: declared[name] for name in names if name in declared})
    if chat.tools is not None:
        columns["tools"] = chat.tools
    expected = len(columns)
    for name in _TAKEN_WHERE_THERE.get(chat.format, ()):
        columns.setdefault(name, name)
    return columns, needed, expected


def chat_settings(loaded: LoadedConfig, name: str, tokenizer: Path) -> str:
    """All that decides what a conversation becomes, as the worker takes it; "" without `chat`."""
    source = base_name(name)
    chat = loaded.config.sources[source].chat
    if chat is None:
        return ""

    def refuse(key: str, wrong: str, value: object = None, advice: str = "") -> Exception:
        return loaded.refused(("sources", source, "chat", key), wrong, value, "", advice)

    try:
        from overlord._workers import chat_template
    except ImportError as error:
        raise refuse("template", str(error), chat.template) from None
    folder = _Folder(tokenizer)
    try:
        template = _template_text(loaded, chat, folder, chat_template.CHATML)
        variables = {**folder.special_tokens(), **chat.variables}
        settings = json.dumps(
            {
                "format": chat.format,
                "columns": _columns(chat)[0],
                "template": template,
                "loss": chat.loss,
                "roles": chat.roles,
                "markers": chat.markers,
                "variables": variables,
                "date": chat.date,
                # What only some declare is written only there: whoever does not keeps his digest.
                **({"parts": chat.parts} if chat.parts else {}),
            },
            sort_keys=True,
        )
        if len(settings) > MOST_SETTINGS:
            raise _TemplateNotUsable(f"is too long: {len(settings)} of {MOST_SETTINGS} characters")
        chat_template.ChatRenderer(settings)
    except _TemplateNotUsable as error:
        raise refuse("template", str(error), chat.template, error.advice) from None
    except chat_template.TemplateError as error:
        raise refuse("template", f"cannot be used: {error}", chat.template) from None
    except (TypeError, ValueError) as error:
        raise refuse("variables", f"have no JSON: {error}") from None
    return settings


class _TemplateNotUsable(Exception):
    def __init__(self, wrong: str, advice: str = "") -> None:
        super().__init__(wrong)
        self.advice = advice


def _template_text(loaded: LoadedConfig, chat: ChatConfig, folder: _Folder, chatml: str) -> str:
    if chat.template == "none":
        return ""
    if chat.template == "tokenizer":
        return folder.template(chat.tools is not None)
    if chat.template == "chatml":
        missing = [token for token in _CHATML_TOKENS if token not in folder.added_tokens()]
        if missing:
            raise _TemplateNotUsable(
                f"the tokenizer has no token {missing[0]}", "use a template that suits it"
            )
        return chatml
    path = loaded.base / chat.template
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise _TemplateNotUsable(
            f"{path} cannot be read: {reason}", "name a Jinja file, `tokenizer` or `chatml`"
        ) from None


class _Folder:
    """What lies beside a tokenizer.json."""

    def __init__(self, tokenizer: Path) -> None:
        self._tokenizer = tokenizer

    def _json(self, name: str) -> dict[str, Any]:
        path = self._tokenizer.with_name(name)
        if not path.is_file():
            return {}
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise _TemplateNotUsable(f"{path} cannot be read: {error}") from None
        return found if isinstance(found, dict) else {}

    def template(self, tools: bool) -> str:
        """The tokenizer's own template, as Hugging Face finds it."""
        file = self._tokenizer.with_name("chat_template.jinja")
        if file.is_file():
            try:
                return file.read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise _TemplateNotUsable(f"{file} cannot be read: {error}") from None
        for name in ("tokenizer_config.json", "chat_template.json"):
            found = self._json(name).get("chat_template")
            if isinstance(found, list):  # several, by name
                named = {entry["name"]: entry["template"] for entry in found}
                found = (named.get("tool_use") if tools else None) or named.get("default")
            if isinstance(found, str):
                return found
        raise _TemplateNotUsable(
            f"no chat template lies beside {self._tokenizer}",
            "put chat_template.jinja or tokenizer_config.json there, or set `template:` to the "
            "path of a Jinja file, or to chatml",
        )

    def special_tokens(self) -> dict[str, Any]:
        """The variables that templates know: bos_token and its like."""
        found = {**self._json("special_tokens_map.json"), **self._json("tokenizer_config.json")}
        tokens: dict[str, Any] = {}
        for name in (f"{kind}_token" for kind in _SPECIAL):
            token = found.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if isinstance(token, str):
                tokens[name] = token
        return tokens

    def added_tokens(self) -> set[str]:
        """Tokens that text is never cut through."""
        added = self._json(self._tokenizer.name).get("added_tokens", [])
        return {str(entry.get("content")) for entry in added if isinstance(entry, dict)}

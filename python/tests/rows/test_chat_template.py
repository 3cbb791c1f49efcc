"""The renderer by itself: where answers are, what templates may do, what rows may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from overlord._workers.chat_template import (
    CHATML,
    MAX_PREFIXED_MESSAGES,
    ChatRenderer,
    RowError,
    TemplateError,
    token_mask,
)

ASKED = {"role": "user", "content": "q"}
SAID = {"role": "assistant", "content": "a"}
PLAIN = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"


def renderer(template: str = PLAIN, **settings: Any) -> ChatRenderer:
    chosen: dict[str, Any] = {key: {} for key in ("roles", "markers", "variables")}
    chosen |= {"format": "messages", "columns": {"messages": "messages"}}
    chosen |= {"template": template, "loss": "answers", "date": None}
    return ChatRenderer(json.dumps({**chosen, **settings}))


def answers(made: ChatRenderer, *messages: Any) -> tuple[str, list[str]]:
    text, spans = made.render(json.dumps({"messages": messages}, ensure_ascii=False))
    return text, [text[begin:end] for begin, end in spans or []]


def test_without_marks_an_answer_is_what_its_message_adds() -> None:
    text, found = answers(renderer(), ASKED, SAID, ASKED, SAID)
    assert text == "u:q;a:a;u:q;a:a;" and found == ["a:a;", "a:a;"]
    prompted = PLAIN + "{% if add_generation_prompt %}a:{% endif %}"
    assert answers(renderer(prompted), ASKED, SAID) == ("u:q;a:a;", ["a;"])


def test_with_marks_an_answer_is_what_they_enclose() -> None:
    marked = (
        "{% for m in messages %}{% if m.role == 'assistant' %}<{% generation %}{{ m.content }}"
        "{% endgeneration %}>{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    assert answers(renderer(marked), ASKED, SAID, ASKED, SAID) == ("q<a>q<a>", ["a", "a"])
    # What a row says can not pass for a mark, whichever is in use.
    forged = {"role": "user", "content": "\ufdd0x\ufdd1 \ufdd2"}
    text, found = answers(renderer(marked), forged, SAID)
    assert text == "\ufdd0x\ufdd1 \ufdd2<a>" and found == ["a"]
    hidden = {"messages": json.dumps([forged, SAID])}
    assert renderer(marked).render(json.dumps(hidden)) == (text, [(6, 7)])
    told = {"role": "user", "content": "write \\ufdd0"}
    assert answers(renderer(marked), told, SAID) == ("write \\ufdd0<a>", ["a"])


def test_a_template_that_rewrites_earlier_turns_costs_the_rows_it_does_so_in() -> None:
    forgetful = (
        "{% for m in messages %}{{ m.role[0] }}:"
        "{{ m.content if loop.last or m.role == 'user' else '-' }};{% endfor %}"
    )
    made = renderer(forgetful)
    assert answers(made, ASKED, SAID) == ("u:q;a:a;", ["a:a;"])
    with pytest.raises(RowError, match="where answer 1 is cannot be told"):
        answers(made, ASKED, SAID, ASKED, SAID)
    assert (
        renderer(forgetful, loss="all").render(json.dumps({"messages": [ASKED, SAID]}))[1] is None
    )


def test_long_conversations_need_marks() -> None:
    many = [ASKED, SAID] * (MAX_PREFIXED_MESSAGES // 2 + 1)
    with pytest.raises(RowError, match="1026 messages"):
        answers(renderer(), *many)
    assert len(answers(renderer(CHATML), *many)[1]) == len(many) // 2


def test_a_template_of_parts_alone_is_given_parts() -> None:
    parts = (
        "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}"
        "{% elif p.type == 'image' %}<img>{% endif %}{% endfor %};{% endfor %}"
    )
    asked = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "q"}]}
    assert answers(renderer(parts), asked, SAID) == ("<img>q;a;", ["a;"])
    sound = {"role": "user", "content": [{"type": "audio"}]}
    with pytest.raises(RowError, match="part of type audio"):
        answers(renderer(parts), sound, SAID)
    assert answers(renderer(parts, markers={"audio": "<au>"}), sound, SAID)[0] == "<au>;a;"


def test_a_template_can_reach_nothing_outside() -> None:
    for escape in (
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% include 'x' %}",
    ):
        with pytest.raises((RowError, TemplateError)):
            answers(renderer(escape + PLAIN), ASKED, SAID)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ('{"messages":[{"role":"user","role":"user","content":"x"}]}', "appears twice"),
        ('{"messages":5}', "is no list"),
        ('{"messages":["x"]}', "message 0 is no object"),
        ('{"messages":[{"content":"x"}]}', "has no 'role'"),
        ('{"messages":[{"role":"user","content":[]}]}', "neither text nor"),
        ('{"messages":[{"role":"user","content":[{"type":"smell"}]}]}', "unknown type 'smell'"),
        ('{"messages":[{"role":"user","content":[{"type":"text"}]}]}', "without text"),
        ('{"messages":[{"role":"system","content":null}]}', "message 0 (system) has no content"),
    ],
)
def test_what_a_row_may_not_be(row: str, part: str) -> None:
    with pytest.raises(RowError) as caught:
        renderer().render(row)
    assert part in str(caught.value)


def test_roles_of_your_own() -> None:
    made = renderer(roles={"bot": "assistant", "ipython": "ipython"})
    text, found = answers(made, ASKED, {"role": "bot", "content": "a"})
    assert text == "u:q;a:a;" and found == ["a:a;"]


def test_a_token_with_one_character_of_an_answer_carries_loss() -> None:
    offsets = [(0, 2), (2, 5), (5, 5), (5, 6), (6, 9), (9, 10)]
    assert list(token_mask(offsets, [(4, 6)])) == [0, 1, 0, 1, 0, 0]
    assert list(token_mask(offsets, [(0, 1), (8, 10)])) == [1, 0, 0, 0, 1, 1]
    assert list(token_mask(offsets, None)) == [1] * 6

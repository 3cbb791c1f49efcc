"""Reads C++ well enough for house rules: code without comments and literals, and its functions.

It is a scanner, not a parser: it matches braces over text in which comments, literals and
preprocessor lines are blanked out, and tells a function's body from a namespace, a class or an
initialiser by the text before the brace.
"""

import functools
import re
from dataclasses import dataclass

_LITERAL = re.compile(
    r"""
    //(?:[^\n\\]|\\.|\\\n)*                              # line comment, with continued lines
  | /\*.*?\*/                                            # block comment
  | (?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"   # raw string
  | (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"                     # string
  | (?<![0-9a-zA-Z_])(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+'    # character; 1'000 is a number
    """,
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_CONTAINER = re.compile(
    r"^(?:\W|typedef\b|static\b|inline\b|constexpr\b|const\b|friend\b|export\b)*"
    r"(?:namespace|class|struct|union|enum|extern)\b"
)
_SIGNATURE_END = re.compile(r"\)\s*(?:const|noexcept|override|final|mutable|&|\s)*$")
_ACCESS_LABELS = re.compile(r"^\s*(?:(?:public|private|protected)\s*:(?!:)\s*)+")
_NAME = re.compile(r"([~\w:]+|operator\s*\S+)\s*$")


@dataclass(frozen=True)
class Function:
    """A function definition: its name and the lines from its signature to its closing brace."""

    name: str
    first_line: int
    last_line: int

    @property
    def line_count(self) -> int:
        return self.last_line - self.first_line + 1


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


@functools.cache
def code_only(text: str) -> str:
    """The text with comments and literals as blanks; every character keeps its line and column."""
    return _LITERAL.sub(_blank, text)


def includes(text: str) -> list[tuple[int, str]]:
    """Every included path with its line, leaving out those that are commented out."""
    code = code_only(text)
    found = []
    for match in _INCLUDE.finditer(text):
        if code[match.start() : match.end()].lstrip().startswith("#"):
            found.append((line_of(text, match.start(1)), match.group(1)))
    return found


def line_of(text: str, position: int) -> int:
    """The line, counted from 1, on which a character position lies."""
    return text.count("\n", 0, position) + 1


def functions(text: str) -> list[Function]:
    """The function definitions of a file; a lambda or a local class belongs to its function."""
    code = _DIRECTIVE.sub(_blank, code_only(text))
    found: list[Function] = []
    start = position = 0
    parentheses = 0
    while position < len(code):
        character = code[position]
        if character in "()":
            parentheses += 1 if character == "(" else -1
        elif character == "{" and parentheses > 0:
            position = _closing_brace(code, position)
        elif character == "{":
            header = code[start:position]
            if not _opens_container(header):
                end = _closing_brace(code, position)
                if not _is_initialiser(header, code, end):
                    found.append(_function(code, start, position, end))
                    start = end + 1
                position = end
            else:
                start = position + 1
        elif (character == ";" and parentheses <= 0) or character == "}":
            start, parentheses = position + 1, 0
        position += 1
    return found


def _closing_brace(code: str, opening: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, opening):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
    return len(code) - 1


def _without_template(header: str) -> str:
    """Drops leading access labels and `template <...>`, whose parameters may say `class`."""
    header = _ACCESS_LABELS.sub("", header).lstrip()
    while header.startswith("template"):
        depth = 0
        for index, character in enumerate(header):
            depth += {"<": 1, ">": -1}.get(character, 0)
            if character == ">" and depth == 0:
                header = header[index + 1 :].lstrip()
                break
        else:
            break
    return header


def _opens_container(header: str) -> bool:
    header = _without_template(header)
    return bool(_CONTAINER.match(header)) and not _SIGNATURE_END.search(header)


def _is_initialiser(header: str, code: str, end: int) -> bool:
    """Whether the braces hold values: `x = {..}`, `x{..}`, or a member in a constructor's list."""
    if "(" not in header or header.rstrip().endswith(("=", "return")):
        return True
    return code[end + 1 :].lstrip()[:1] in {",", "{"}


def _function(code: str, start: int, opening: int, end: int) -> Function:
    header = _ACCESS_LABELS.sub("", code[start:opening]).lstrip()
    first = opening - len(header)
    header = _without_template(header)
    before_lambda = re.split(r"\s*=\s*\[", header, maxsplit=1)
    signature = before_lambda[0] if len(before_lambda) > 1 else header.split("(", 1)[0]
    name = _NAME.search(signature)
    return Function(
        name=name.group(1) if name else "(unnamed)",
        first_line=line_of(code, first),
        last_line=line_of(code, end),
    )

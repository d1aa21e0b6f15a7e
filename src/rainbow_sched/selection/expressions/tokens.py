"""Cut an expression's text into numbers, texts, names and operators, each with its place."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from rainbow_sched.selection.expressions.errors import BadExpression

MAX_LENGTH = 1_024


class Kind(enum.Enum):
    """What a token is."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    NAME = "a name"
    OPERATOR = "an operator"
    END = "the end"


class Token(NamedTuple):
    """One piece of the text; `value` is the number, the text without quotes, the name or the operator."""

    kind: Kind
    value: float | str | bool
    position: int


_TOKEN = re.compile(
    r"""\s*(?:
        (?P<hex>0[xX][0-9a-fA-F]{1,13}(?![\w.]))
      | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<name>[A-Za-z_]\w*(?:\.\w+)*)
      | \[(?P<escaped>[^\[\]'"\\]+)\]
      | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<operator>\*\*|&&|\|\||\?\?|==|!=|>=|<=|=~|!~|<<|>>|[-+*/%<>!?:(),&|^~])
      | (?P<end>$)
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t"}


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`, the last one being the end."""
    if len(text) > MAX_LENGTH:
        raise BadExpression(f"an expression has at most {MAX_LENGTH} characters, not {len(text)}", text, MAX_LENGTH)
    tokens: list[Token] = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unreadable(text, at)
        token = _token(found, text)
        tokens.append(token)
        at = found.end()
        if token.kind is Kind.END:
            return tokens


def _token(found: re.Match[str], text: str) -> Token:
    kind = str(found.lastgroup)
    value, position = found.group(kind), found.start(kind)
    if kind == "number":
        number = float(value)
        if number == float("inf"):
            raise BadExpression(f"{value[:20]} is too large for a number", text, position)
        return Token(Kind.NUMBER, number, position)
    if kind == "hex":
        return Token(Kind.NUMBER, float(int(value, 16)), position)
    if kind == "text":
        plain = _ESCAPE.sub(lambda m: _ESCAPES.get(m.group(1), m.group(1)), value[1:-1])
        return Token(Kind.TEXT, plain, position)
    if kind == "name":
        if value in ("true", "false"):
            return Token(Kind.BOOLEAN, value == "true", position)
        if value in ("IN", "in"):
            return Token(Kind.OPERATOR, "IN", position)
        return Token(Kind.NAME, value, position)
    if kind == "escaped":
        return Token(Kind.NAME, value.strip(), position)
    return Token(Kind.END if kind == "end" else Kind.OPERATOR, value, position)


def _unreadable(text: str, at: int) -> BadExpression:
    while at < len(text) and text[at].isspace():
        at += 1
    here = text[at]
    if here in "'\"":
        return BadExpression("this text has no closing quote", text, at)
    if here == "[":
        return BadExpression("a name in brackets looks like [name-with-dash]", text, at)
    if here == "=":
        return BadExpression("= does not compare; write ==", text, at)
    if here.isdigit() or here == ".":
        return BadExpression("this is not a number", text, at)
    return BadExpression(f"{here!r} has no meaning here", text, at)

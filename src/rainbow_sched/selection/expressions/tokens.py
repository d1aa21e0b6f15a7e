"""Split an expression into tokens: numbers, text, names and operators, each with its position."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from rainbow_sched.selection.expressions.errors import BadExpression

MAX_CHARACTERS = 1_024


class TokenKind(enum.Enum):
    """The kind of a token."""

    NUMBER = "a number"
    TEXT = "a text"
    BOOLEAN = "true or false"
    NAME = "a name"
    OPERATOR = "an operator"
    END = "the end"


class Token(NamedTuple):
    """A token; `value` is the number, the text without quotes, the name or the operator."""

    kind: TokenKind
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
    """Return all tokens of `text`; the last is END."""
    if len(text) > MAX_CHARACTERS:
        problem = f"an expression has at most {MAX_CHARACTERS} characters, not {len(text)}"
        raise BadExpression(problem, text, MAX_CHARACTERS)
    tokens: list[Token] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _syntax_error(text, at)
        token = _token(match, text)
        tokens.append(token)
        at = match.end()
        if token.kind is TokenKind.END:
            return tokens


def _token(match: re.Match[str], text: str) -> Token:
    kind = str(match.lastgroup)
    value, position = match.group(kind), match.start(kind)
    if kind == "number":
        number = float(value)
        if number == float("inf"):
            raise BadExpression(f"{value[:20]} is too large for a number", text, position)
        return Token(TokenKind.NUMBER, number, position)
    if kind == "hex":
        return Token(TokenKind.NUMBER, float(int(value, 16)), position)
    if kind == "text":
        plain = _ESCAPE.sub(lambda m: _ESCAPES.get(m.group(1), m.group(1)), value[1:-1])
        return Token(TokenKind.TEXT, plain, position)
    if kind == "name":
        if value in ("true", "false"):
            return Token(TokenKind.BOOLEAN, value == "true", position)
        if value in ("IN", "in"):
            return Token(TokenKind.OPERATOR, "IN", position)
        return Token(TokenKind.NAME, value, position)
    if kind == "escaped":
        return Token(TokenKind.NAME, value.strip(), position)
    return Token(TokenKind.END if kind == "end" else TokenKind.OPERATOR, value, position)


def _syntax_error(text: str, at: int) -> BadExpression:
    while at < len(text) and text[at].isspace():
        at += 1
    here = text[at]
    if here in "'\"":
        return BadExpression("this text has no closing quote", text, at)
    if here == "[":
        return BadExpression("a name in brackets looks like [name-with-dash]", text, at)
    if here == "=":
        return BadExpression("use == to compare, not =", text, at)
    if here.isdigit() or here == ".":
        return BadExpression("this is not a number", text, at)
    return BadExpression(f"unexpected {here!r}", text, at)

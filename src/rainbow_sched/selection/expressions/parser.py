"""Split an expression into tokens, and parse these into a tree by precedence climbing.

The precedence is that of the prototype's engine, lowest first: ternary, ??, ||, &&, comparisons
and IN, bit masks, shifts, sums, products, powers, prefixes. All operators are left associative:
`2 ** 3 ** 2` is 64, and `-2 ** 2` is 4, as in the prototype.
"""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple

from rainbow_sched.selection.expressions.errors import BadExpression

MAX_CHARS = 1_024  # bounds the time to parse an expression
MAX_NODES = 200  # bounds the time of one evaluation
MAX_DEPTH = 20  # bounds the recursion of the parser and of an evaluation
PREFIXES = ("-", "!", "~")
TERNARY = 1  # precedence of `?`, below those of all other operators
PRECEDENCE = {
    operator: level
    for level, operators in enumerate(
        ("??", "||", "&&", "== != < <= > >= =~ !~ IN", "& | ^", "<< >>", "+ -", "* / %", "**"), start=2
    )
    for operator in operators.split()
}
FUNCTIONS = {"min": (1, 64), "max": (1, 64), "abs": (1, 1), "ceil": (1, 1), "floor": (1, 1), "round": (1, 2)}


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


class TokenKind(enum.Enum):
    CONSTANT = enum.auto()  # a number, a text, true or false
    NAME = enum.auto()
    OPERATOR = enum.auto()
    END = enum.auto()


class Token(NamedTuple):
    """A token; `value` is the number, the text without quotes, true or false, the name, or the operator."""

    kind: TokenKind
    value: float | str | bool
    position: int


class Node(NamedTuple):
    """One operation of the tree: `op` is the operator, `constant`, `name`, `list`, `?` or `call`."""

    op: str
    args: tuple[Any, ...]  # child nodes; constants, names and calls begin with their value
    position: int


def tokenize(text: str) -> list[Token]:
    """Return all tokens of `text`; the last is END."""
    if len(text) > MAX_CHARS:
        problem = f"an expression has at most {MAX_CHARS} characters, not {len(text)}"
        raise BadExpression(problem, text, MAX_CHARS)
    tokens: list[Token] = []
    at = 0
    while not tokens or tokens[-1].kind is not TokenKind.END:
        match = _TOKEN.match(text, at)
        if match is None:
            raise _syntax_error(text, at)
        tokens.append(_token(match, text))
        at = match.end()
    return tokens


def _token(match: re.Match[str], text: str) -> Token:
    kind = str(match.lastgroup)
    value, position = match.group(kind), match.start(kind)
    if kind == "number":
        number = float(value)
        if number == float("inf"):
            raise BadExpression(f"{value[:20]} is too large for a number", text, position)
        return Token(TokenKind.CONSTANT, number, position)
    if kind == "hex":
        return Token(TokenKind.CONSTANT, float(int(value, 16)), position)
    if kind == "text":
        plain = _ESCAPE.sub(lambda m: _ESCAPES.get(m.group(1), m.group(1)), value[1:-1])
        return Token(TokenKind.CONSTANT, plain, position)
    if kind == "name":
        if value in ("true", "false"):
            return Token(TokenKind.CONSTANT, value == "true", position)
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


def parse(text: str) -> Node:
    """Parse `text`; raise BadExpression with the position of a syntax error."""
    return _Parser(text).parse()


class _Parser:
    """Parses one expression; limits on nodes and nesting bound the cost."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._nodes = 0
        self._depth = 0

    def parse(self) -> Node:
        tree = self._expression(0)
        if self._current.kind is not TokenKind.END:
            raise self._error(f"unexpected {self._shown()}")
        return tree

    @property
    def _current(self) -> Token:
        return self._tokens[self._at]

    def _shown(self) -> str:
        return "the end" if self._current.kind is TokenKind.END else repr(self._current.value)

    def _error(self, message: str) -> BadExpression:
        return BadExpression(message, self._text, self._current.position)

    def _node(self, op: str, args: tuple[Any, ...], position: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BadExpression(f"an expression has at most {MAX_NODES} parts", self._text, position)
        return Node(op, args, position)

    def _is(self, operator: str) -> bool:
        return self._current.kind is TokenKind.OPERATOR and self._current.value == operator

    def _expect(self, operator: str, after: str) -> None:
        if not self._is(operator):
            raise self._error(f"expected {operator!r} after {after}, found {self._shown()}")
        self._at += 1

    def _expression(self, lowest: int) -> Node:
        """Parse an expression whose operators have a precedence above `lowest`."""
        left = self._value()
        while self._current.kind is TokenKind.OPERATOR:
            operator, position = str(self._current.value), self._current.position
            precedence = TERNARY if operator == "?" else PRECEDENCE.get(operator, 0)
            if precedence <= lowest:
                break
            self._at += 1
            if operator == "?":
                left = self._ternary(left, position)
            elif operator == "IN":
                left = self._node("IN", (left, self._members()), position)
            else:
                left = self._node(operator, (left, self._expression(precedence)), position)
        return left

    def _nested(self, lowest: int = 0) -> Node:
        """Parse an expression inside another: in parentheses, after a prefix, in a call or a ternary."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"an expression is nested at most {MAX_DEPTH} deep")
        inner = self._expression(lowest)
        self._depth -= 1
        return inner

    def _ternary(self, condition: Node, position: int) -> Node:
        yes = self._nested()
        self._expect(":", "the first choice of '?'")
        return self._node("?", (condition, yes, self._nested()), position)

    def _members(self) -> Node:
        if not self._is("("):
            return self._expression(PRECEDENCE["IN"])
        position = self._current.position
        self._at += 1
        return self._node("list", self._arguments("IN ("), position)

    def _arguments(self, after: str) -> tuple[Node, ...]:
        """Parse one or more expressions separated by commas, up to the closing parenthesis."""
        items = [self._nested()]
        while self._is(","):
            self._at += 1
            items.append(self._nested())
        self._expect(")", f"the values of {after}")
        return tuple(items)

    def _value(self) -> Node:
        token = self._current
        if token.kind is TokenKind.END:
            raise self._error("a value is missing")
        self._at += 1
        if token.kind is TokenKind.OPERATOR:
            return self._prefixed(token)
        if token.kind is TokenKind.NAME:
            if self._is("("):
                return self._call(token)
            return self._node("name", (token.value,), token.position)
        return self._node("constant", (token.value,), token.position)

    def _prefixed(self, token: Token) -> Node:
        if token.value == "(":
            inner = self._nested()
            self._expect(")", "the expression in parentheses")
            return inner
        if token.value in PREFIXES:
            return self._node(f"prefix {token.value}", (self._nested(PRECEDENCE["**"]),), token.position)
        self._at -= 1
        raise self._error(f"expected a value, found {self._shown()}")

    def _call(self, token: Token) -> Node:
        name = str(token.value)
        if name not in FUNCTIONS:
            self._at -= 1
            raise self._error(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
        self._at += 1
        arguments = self._arguments(f"{name}(")
        least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise BadExpression(f"{name} takes {wanted} values, not {len(arguments)}", self._text, token.position)
        return self._node("call", (name, *arguments), token.position)

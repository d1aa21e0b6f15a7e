"""Turn tokens into a tree by precedence climbing: each operator knows how tightly it binds.

The order is that of the prototype's engine, loosest first: ternary, ??, ||, &&, comparisons
and IN, bit masks, shifts, sums, products, powers, prefixes. All are read from left to right;
so `2 ** 3 ** 2` is 64, and `-2 ** 2` is 4, as there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rainbow_sched.selection.expressions.errors import BadExpression
from rainbow_sched.selection.expressions.tokens import Kind, Token, tokenize

MAX_NODES = 200
MAX_DEPTH = 20
PREFIXES = ("-", "!", "~")
TERNARY = 1
BINDING = {
    operator: level
    for level, operators in enumerate(
        ("??", "||", "&&", "== != < <= > >= =~ !~ IN", "& | ^", "<< >>", "+ -", "* / %", "**"), start=2
    )
    for operator in operators.split()
}
FUNCTIONS = {"min": (1, 64), "max": (1, 64), "abs": (1, 1), "ceil": (1, 1), "floor": (1, 1), "round": (1, 2)}


class Node(NamedTuple):
    """One operation of the tree: `op` is the operator, `constant`, `name`, `list`, `?` or `call`."""

    op: str
    args: tuple[Any, ...]  # the parts below as nodes; for constants, names and calls the value comes first
    position: int


def parse(text: str) -> Node:
    """The tree of `text`; raise BadExpression with the character at fault."""
    return _Parser(text).whole()


class _Parser:
    """Reads one expression; it counts nodes and nesting, so that no text can cost much."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._nodes = 0
        self._depth = 0

    def whole(self) -> Node:
        tree = self._expression(0)
        if self._now.kind is not Kind.END:
            raise self._wrong(f"{self._shown()} does not belong here")
        return tree

    @property
    def _now(self) -> Token:
        return self._tokens[self._at]

    def _shown(self) -> str:
        return "the end" if self._now.kind is Kind.END else repr(self._now.value)

    def _wrong(self, message: str) -> BadExpression:
        return BadExpression(message, self._text, self._now.position)

    def _node(self, op: str, args: tuple[Any, ...], position: int) -> Node:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise BadExpression(f"an expression has at most {MAX_NODES} parts", self._text, position)
        return Node(op, args, position)

    def _is(self, operator: str) -> bool:
        return self._now.kind is Kind.OPERATOR and self._now.value == operator

    def _expect(self, operator: str, after: str) -> None:
        if not self._is(operator):
            raise self._wrong(f"expected {operator!r} after {after}, found {self._shown()}")
        self._at += 1

    def _expression(self, loosest: int) -> Node:
        """An expression whose operators bind tighter than `loosest`."""
        left = self._value()
        while self._now.kind is Kind.OPERATOR:
            operator, position = str(self._now.value), self._now.position
            binding = TERNARY if operator == "?" else BINDING.get(operator, 0)
            if binding <= loosest:
                break
            self._at += 1
            if operator == "?":
                left = self._ternary(left, position)
            elif operator == "IN":
                left = self._node("IN", (left, self._members()), position)
            else:
                left = self._node(operator, (left, self._expression(binding)), position)
        return left

    def _nested(self, loosest: int = 0) -> Node:
        """An expression inside another one: in parentheses, after a prefix, in a call or a choice."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._wrong(f"an expression is nested at most {MAX_DEPTH} deep")
        inner = self._expression(loosest)
        self._depth -= 1
        return inner

    def _ternary(self, condition: Node, position: int) -> Node:
        yes = self._nested()
        self._expect(":", "the first choice of '?'")
        return self._node("?", (condition, yes, self._nested()), position)

    def _members(self) -> Node:
        if not self._is("("):
            return self._expression(BINDING["IN"])
        position = self._now.position
        self._at += 1
        return self._node("list", self._arguments("IN ("), position)

    def _arguments(self, after: str) -> tuple[Node, ...]:
        """One or more expressions between commas, up to the closing parenthesis."""
        items = [self._nested()]
        while self._is(","):
            self._at += 1
            items.append(self._nested())
        self._expect(")", f"the values of {after}")
        return tuple(items)

    def _value(self) -> Node:
        token = self._now
        if token.kind is Kind.END:
            raise self._wrong("a value is missing")
        self._at += 1
        if token.kind is Kind.OPERATOR:
            return self._prefixed(token)
        if token.kind is Kind.NAME:
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
            return self._node(f"prefix {token.value}", (self._nested(BINDING["**"]),), token.position)
        self._at -= 1
        raise self._wrong(f"expected a value, found {self._shown()}")

    def _call(self, token: Token) -> Node:
        name = str(token.value)
        if name not in FUNCTIONS:
            self._at -= 1
            raise self._wrong(f"there is no function {name!r}; there are {', '.join(FUNCTIONS)}")
        self._at += 1
        arguments = self._arguments(f"{name}(")
        least, most = FUNCTIONS[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise BadExpression(f"{name} takes {wanted} values, not {len(arguments)}", self._text, token.position)
        return self._node("call", (name, *arguments), token.position)

"""Compile the tree of an expression into nested functions, so that evaluation costs about a microsecond.

Each function takes the variables and returns a float, text, a boolean or (for IN) a list.
The frequent cases (a name, a constant, a sum of two numbers) have functions with inlined
checks; the others call `operations`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rainbow_sched.selection.expressions import fast
from rainbow_sched.selection.expressions.errors import BadExpression, EvaluationError, MissingVariable
from rainbow_sched.selection.expressions.fast import Run
from rainbow_sched.selection.expressions.operations import (
    ARITHMETIC,
    CALLS,
    MAX_FLOAT,
    MAX_TEXT_CHARACTERS,
    ORDER,
    NoResult,
    bit_not,
    concatenate,
    kind,
)
from rainbow_sched.selection.expressions.parser import Node


class Compiler:
    """Compiles one expression; `names` collects the variables that it reads."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.names: set[str] = set()

    def compile(self, node: Node) -> Run:
        """Return the function that evaluates `node`."""
        op, args, position = node
        if op == "constant":
            return _constant(args[0])
        if op == "name":
            self.names.add(args[0])
            return self._variable(args[0], position)
        if op == "call":
            return self._call(args[0], [self.compile(arg) for arg in args[1:]], position)
        if op in ("=~", "!~"):
            return self._glob(op, self.compile(args[0]), args[1], position)
        if op in ARITHMETIC:
            return self._arithmetic(op, args[0], args[1], position)
        return self._operator(op, [self.compile(arg) for arg in args], position)

    def _operator(self, op: str, parts: list[Run], position: int) -> Run:
        if op in ORDER:
            return self._ordered(op, parts[0], parts[1], position)
        return {
            "+": self._add,
            "==": self._equal,
            "!=": self._unequal,
            "&&": self._and,
            "||": self._or,
            "??": self._coalesce,
            "IN": self._in,
            "?": self._choice,
            "list": self._list,
            "prefix -": self._negate,
            "prefix !": self._invert,
            "prefix ~": self._complement,
        }[op](parts, position)

    def _error(self, message: str, position: int) -> EvaluationError:
        return EvaluationError(message, self._text, position)

    def _variable(self, name: str, position: int) -> Run:
        def run(env: Mapping[str, Any]) -> Any:
            try:
                value = env[name]
            except KeyError:
                raise MissingVariable(name, self._text, position) from None
            if value.__class__ is float and -MAX_FLOAT <= value <= MAX_FLOAT:
                return value
            if value.__class__ is int and -MAX_FLOAT <= value <= MAX_FLOAT:
                return float(value)
            return self._as_value(name, value, position)

        return run

    def _as_value(self, name: str, value: object, position: int) -> Any:
        if value is None:
            raise MissingVariable(name, self._text, position)
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            if -MAX_FLOAT <= value <= MAX_FLOAT:
                return float(value)
            raise self._error(f"{name!r} is not a finite number", position)
        if isinstance(value, str):
            if len(value) <= MAX_TEXT_CHARACTERS:
                return value
            raise self._error(f"{name!r} is longer than {MAX_TEXT_CHARACTERS} characters", position)
        if isinstance(value, list | tuple):
            return tuple(self._as_value(name, item, position) for item in value if item is not None)
        raise self._error(f"{name!r} must be a number, text, true/false or a list", position)

    def _arithmetic(self, op: str, first: Node, second: Node, position: int) -> Run:
        left, operation = self.compile(first), ARITHMETIC[op]

        def make_error(x: Any, y: Any) -> EvaluationError:
            if x.__class__ is not float or y.__class__ is not float:
                return self._error(f"{op!r} takes two numbers, not {kind(x)} and {kind(y)}", position)
            try:
                operation(x, y)
            except NoResult as error:
                return self._error(str(error), position)
            return self._error("the result is too large for a number", position)

        if op in fast.BY_CONSTANT and second.op == "constant" and isinstance(second.args[0], float) and second.args[0]:
            return fast.BY_CONSTANT[op](left, second.args[0], make_error)
        right = self.compile(second)
        if op in fast.GENERAL:
            return fast.GENERAL[op](left, right, make_error)

        def run(env: Mapping[str, Any]) -> Any:
            x, y = left(env), right(env)
            if x.__class__ is not float or y.__class__ is not float:
                raise make_error(x, y)
            try:
                result = operation(x, y)
            except NoResult as error:
                raise self._error(str(error), position) from None
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
            raise make_error(x, y)

        return run

    def _add(self, parts: list[Run], position: int) -> Run:
        left, right = parts

        def run(env: Mapping[str, Any]) -> Any:
            x, y = left(env), right(env)
            if x.__class__ is float and y.__class__ is float:
                result = x + y
                if -MAX_FLOAT <= result <= MAX_FLOAT:
                    return result
                raise self._error("the result is too large for a number", position)
            if x.__class__ is not str and y.__class__ is not str:
                raise self._error(f"'+' takes numbers or texts, not {kind(x)} and {kind(y)}", position)
            try:
                return concatenate(x, y)
            except NoResult as error:
                raise self._error(str(error), position) from None

        return run

    def _ordered(self, op: str, left: Run, right: Run, position: int) -> Run:
        compare = ORDER[op]

        def run(env: Mapping[str, Any]) -> bool:
            x, y = left(env), right(env)
            if x.__class__ is y.__class__ and (x.__class__ is float or x.__class__ is str):
                return compare(x, y)
            raise self._error(f"{op!r} compares two numbers or two texts, not {kind(x)} and {kind(y)}", position)

        return run

    def _equal(self, parts: list[Run], position: int) -> Run:
        left, right = parts
        return lambda env: same(left(env), right(env))

    def _unequal(self, parts: list[Run], position: int) -> Run:
        left, right = parts
        return lambda env: not same(left(env), right(env))

    def _truth(self, part: Run, what: str, position: int) -> Callable[[Mapping[str, Any]], bool]:
        def run(env: Mapping[str, Any]) -> bool:
            value = part(env)
            if value is True:
                return True
            if value is False:
                return False
            raise self._error(f"{what} takes true or false, not {kind(value)}", position)

        return run

    def _and(self, parts: list[Run], position: int) -> Run:
        left, right = (self._truth(part, "'&&'", position) for part in parts)
        return lambda env: left(env) and right(env)

    def _or(self, parts: list[Run], position: int) -> Run:
        left, right = (self._truth(part, "'||'", position) for part in parts)
        return lambda env: left(env) or right(env)

    def _invert(self, parts: list[Run], position: int) -> Run:
        truth = self._truth(parts[0], "'!'", position)
        return lambda env: not truth(env)

    def _choice(self, parts: list[Run], position: int) -> Run:
        condition, yes, no = self._truth(parts[0], "'?'", position), parts[1], parts[2]
        return lambda env: yes(env) if condition(env) else no(env)

    def _coalesce(self, parts: list[Run], position: int) -> Run:
        left, right = parts

        def run(env: Mapping[str, Any]) -> Any:
            try:
                return left(env)
            except MissingVariable:
                return right(env)

        return run

    def _list(self, parts: list[Run], position: int) -> Run:
        return lambda env: tuple(part(env) for part in parts)

    def _in(self, parts: list[Run], position: int) -> Run:
        left, right = parts

        def run(env: Mapping[str, Any]) -> bool:
            value, members = left(env), right(env)
            if members.__class__ is not tuple:
                raise self._error(f"IN takes a list such as (1, 2), not {kind(members)}", position)
            return any(same(value, member) for member in members)

        return run

    def _negate(self, parts: list[Run], position: int) -> Run:
        (part,) = parts

        def run(env: Mapping[str, Any]) -> float:
            value = part(env)
            if value.__class__ is float:
                return -float(value)
            raise self._error(f"'-' takes a number, not {kind(value)}", position)

        return run

    def _complement(self, parts: list[Run], position: int) -> Run:
        (part,) = parts

        def run(env: Mapping[str, Any]) -> float:
            value = part(env)
            if value.__class__ is not float:
                raise self._error(f"'~' takes a number, not {kind(value)}", position)
            try:
                return bit_not(value)
            except NoResult as error:
                raise self._error(str(error), position) from None

        return run

    def _glob(self, op: str, part: Run, pattern: Node, position: int) -> Run:
        if pattern.op != "constant" or not isinstance(pattern.args[0], str):
            raise BadExpression(f"{op} takes a pattern in quotes, such as 'gpu-*'", self._text, pattern.position)
        test, wanted = compile_glob(pattern.args[0]), op == "=~"

        def run(env: Mapping[str, Any]) -> bool:
            value = part(env)
            if value.__class__ is not str:
                raise self._error(f"{op!r} takes a text, not {kind(value)}", position)
            return test(value) is wanted

        return run

    def _call(self, name: str, parts: list[Run], position: int) -> Run:
        function = CALLS[name]

        if len(parts) == 2 and name in fast.OF_TWO:

            def make_error(x: Any, y: Any) -> EvaluationError:
                return self._error(f"{name} takes numbers, not {kind(y if x.__class__ is float else x)}", position)

            return fast.OF_TWO[name](parts[0], parts[1], make_error)

        def run(env: Mapping[str, Any]) -> float:
            values = [part(env) for part in parts]
            for value in values:
                if value.__class__ is not float:
                    raise self._error(f"{name} takes numbers, not {kind(value)}", position)
            try:
                return function(*values)
            except NoResult as error:
                raise self._error(str(error), position) from None

        return run


def _constant(value: Any) -> Run:
    return lambda env: value


def same(x: object, y: object) -> bool:
    """Return True if both are equal and of the same type: true is not 1, '1' is not 1."""
    return x.__class__ is y.__class__ and x == y


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a test for a pattern with * and ?, in time linear in the text and without backtracking.

    The parts between stars have a fixed length, so the leftmost match of each part is always right.
    """
    parts = pattern.split("*")
    regexes = [re.compile("".join("." if c == "?" else re.escape(c) for c in part), re.DOTALL) for part in parts]
    if len(regexes) == 1:
        whole = regexes[0]
        return lambda text: whole.fullmatch(text) is not None
    first, *middle, last = regexes
    tail = len(parts[-1])

    def test(text: str) -> bool:
        match = first.match(text)
        if match is None:
            return False
        at, end = match.end(), len(text) - tail
        for regex in middle:
            match = regex.search(text, at, end) if at <= end else None
            if match is None:
                return False
            at = match.end()
        return at <= end and last.match(text, end) is not None

    return test

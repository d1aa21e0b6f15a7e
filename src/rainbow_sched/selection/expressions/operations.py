"""The operators and functions of expressions; all numbers are floats.

A `place` is the text of the expression and the position of the operation in it, for errors.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rainbow_sched.selection.expressions.errors import EvaluationError, MissingVariable

Place: TypeAlias = tuple[str, int]
MAX_TEXT_CHARS = 4_096  # bounds the memory of one evaluation
MAX_FLOAT = 1.7976931348623157e308  # the largest float; infinity and NaN lie outside of -MAX_FLOAT to MAX_FLOAT
MAX_EXACT = 2.0**53  # integers below this are exact in a float


class NoResult(ValueError):
    """These values have no result; the place is added by the caller."""


def variable(value: object, name: str, place: Place) -> Any:
    """Return the value that a variable has in expressions; raise MissingVariable if it is None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if -MAX_FLOAT <= value <= MAX_FLOAT:
            return float(value)
        raise EvaluationError(f"{name!r} is not a finite number", *place)
    if value is None:
        raise MissingVariable(name, *place)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        if len(value) <= MAX_TEXT_CHARS:
            return value
        raise EvaluationError(f"{name!r} is longer than {MAX_TEXT_CHARS} characters", *place)
    if isinstance(value, list | tuple):
        return tuple(variable(item, name, place) for item in value if item is not None)
    raise EvaluationError(f"{name!r} must be a number, text, true/false or a list", *place)


def kind(value: object) -> str:
    """Return the word for the type of `value`, for messages."""
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, float | int):
        return "a number"
    return "a text" if isinstance(value, str) else "a list"


def same(x: object, y: object) -> bool:
    """Return True if both are equal and of the same type: true is not 1, and '1' is not 1."""
    return x.__class__ is y.__class__ and x == y


def truth(value: object, op: str, place: Place) -> bool:
    """Return `value`, which must be true or false."""
    if value is True or value is False:
        return value
    raise EvaluationError(f"{op!r} takes true or false, not {kind(value)}", *place)


def coalesce(env: Mapping[str, Any], left: Callable[..., Any], right: Callable[..., Any]) -> Any:
    """Return the left side, or the right side if the left one reads a variable without a value."""
    try:
        return left(env)
    except MissingVariable:
        return right(env)


def within(value: object, members: object, place: Place) -> bool:
    """Return True if `value` is in the list `members`."""
    if isinstance(members, tuple):
        return any(same(value, member) for member in members)
    raise EvaluationError(f"IN takes a list such as (1, 2), not {kind(members)}", *place)


def matches(value: object, test: Callable[[str], bool], place: Place, op: str = "=~") -> bool:
    """Return True if the pattern holds for the whole text."""
    if isinstance(value, str):
        return test(value)
    raise EvaluationError(f"{op!r} takes a text, not {kind(value)}", *place)


def add(x: Any, y: Any, place: Place) -> Any:
    """Return the sum of two numbers, or both values as one text if one of them is a text."""
    if x.__class__ is float and y.__class__ is float:
        if -MAX_FLOAT <= (result := x + y) <= MAX_FLOAT:
            return result
        raise EvaluationError("the result is too large for a number", *place)
    if x.__class__ is not str and y.__class__ is not str:
        raise EvaluationError(f"'+' takes numbers or texts, not {kind(x)} and {kind(y)}", *place)
    if x.__class__ is tuple or y.__class__ is tuple:
        raise EvaluationError("a list cannot be concatenated with text", *place)
    text = _text(x) + _text(y)
    if len(text) > MAX_TEXT_CHARS:
        raise EvaluationError(f"text has at most {MAX_TEXT_CHARS} characters", *place)
    return text


def _text(value: str | float | bool) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if value.is_integer() and abs(value) < MAX_EXACT else repr(value)


def _remainder(x: float, y: float) -> float:
    """Return the remainder with the sign of `x`, as in C and Go."""
    if y == 0.0:
        raise ZeroDivisionError
    return math.fmod(x, y)


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except ValueError:
        raise NoResult(f"{x:g} ** {y:g} is not a number") from None


def _whole(value: float) -> int:
    if not value.is_integer() or not -MAX_EXACT < value < MAX_EXACT:
        raise NoResult(f"bit operators take whole numbers below 2**53, not {value:g}")
    return int(value)


def _places(value: float) -> int:
    places = _whole(value)
    if not 0 <= places <= 52:
        raise NoResult(f"a shift takes 0 to 52 places, not {places}")
    return places


def _shift_left(x: float, y: float) -> float:
    result = float(_whole(x) << _places(y))
    if not -MAX_EXACT < result < MAX_EXACT:
        raise NoResult("the shifted number must be below 2**53")
    return result


def _arithmetic(op: str, operation: Callable[[float, float], float]) -> Callable[[Any, Any, Place], float]:
    """Return an operator of two numbers."""

    def apply(x: Any, y: Any, place: Place) -> float:
        if x.__class__ is float and y.__class__ is float:
            try:
                if -MAX_FLOAT <= (result := operation(x, y)) <= MAX_FLOAT:
                    return result
            except ZeroDivisionError:
                raise EvaluationError("division by zero", *place) from None
            except NoResult as error:
                raise EvaluationError(str(error), *place) from None
            except OverflowError:
                pass
            raise EvaluationError("the result is too large for a number", *place)
        raise EvaluationError(f"{op!r} takes two numbers, not {kind(x)} and {kind(y)}", *place)

    return apply


def _comparison(op: str, operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Place], bool]:
    """Return an operator that orders two numbers or two texts."""

    def apply(x: Any, y: Any, place: Place) -> bool:
        if x.__class__ is y.__class__ and (x.__class__ is float or x.__class__ is str):
            return operation(x, y)
        raise EvaluationError(f"{op!r} compares two numbers or two texts, not {kind(x)} and {kind(y)}", *place)

    return apply


def _function(takes: str, operation: Callable[..., float]) -> Callable[..., float]:
    """Return a function of numbers, or an operator of one number."""

    def apply(place: Place, *values: Any) -> float:
        for value in values:
            if value.__class__ is not float:
                raise EvaluationError(f"{takes}, not {kind(value)}", *place)
        try:
            return operation(*values)
        except NoResult as error:
            raise EvaluationError(str(error), *place) from None

    return apply


def _rounded(x: float, digits: float = 0.0) -> float:
    """Round to the nearest, halves away from zero, as Go does; to at most 15 digits."""
    places = _whole(digits)
    if not 0 <= places <= 15:
        raise NoResult(f"round takes 0 to 15 digits, not {places}")
    scale = 10.0**places
    scaled = abs(x) * scale
    if scaled >= MAX_EXACT:
        return x
    return math.copysign(math.floor(scaled + 0.5) / scale, x)


_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _remainder,
    "**": _power,
    "&": lambda x, y: float(_whole(x) & _whole(y)),
    "|": lambda x, y: float(_whole(x) | _whole(y)),
    "^": lambda x, y: float(_whole(x) ^ _whole(y)),
    "<<": _shift_left,
    ">>": lambda x, y: float(_whole(x) >> _places(y)),
}
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "abs": abs,
    "ceil": lambda x: float(math.ceil(x)),
    "floor": lambda x: float(math.floor(x)),
    "round": _rounded,
}
# Every name that the code of an expression can use, apart from its own variables and patterns.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "name": variable,
    "truth": truth,
    "??": coalesce,
    "IN": within,
    "+": add,
    "==": lambda x, y, _: same(x, y),
    "!=": lambda x, y, _: not same(x, y),
    "=~": matches,
    "!~": lambda value, test, place: not matches(value, test, place, "!~"),
    "prefix !": lambda place, value: not truth(value, "!", place),
    "prefix -": _function("'-' takes a number", operator.neg),
    "prefix ~": _function("'~' takes a number", lambda x: float(~_whole(x))),
    **{op: _arithmetic(op, operation) for op, operation in _ARITHMETIC.items()},
    **{op: _comparison(op, operation) for op, operation in _COMPARISONS.items()},
    **{f"call {name}": _function(f"{name} takes numbers", operation) for name, operation in _FUNCTIONS.items()},
}

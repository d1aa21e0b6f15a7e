"""The operators and functions of expressions; all numbers are floats."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

MAX_TEXT_CHARACTERS = 4_096
MAX_FLOAT = 1.7976931348623157e308
MAX_EXACT = 2.0**53  # integers below this are exact in a float


class NoResult(ValueError):
    """The operation has no result for these values; the compiler adds the position."""


def kind(value: object) -> str:
    """Return the name of the value's type, for messages."""
    if isinstance(value, bool):
        return "true/false"
    if isinstance(value, float | int):
        return "a number"
    return "a text" if isinstance(value, str) else "a list"


def divide(x: float, y: float) -> float:
    if y == 0.0:
        raise NoResult("division by zero")
    return x / y


def remainder(x: float, y: float) -> float:
    """Return the remainder with the sign of `x`, as in C and Go."""
    if y == 0.0:
        raise NoResult("division by zero")
    return math.fmod(x, y)


def power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        raise NoResult("the result is too large for a number") from None
    except ValueError:
        raise NoResult(f"{x:g} ** {y:g} is not a number") from None


def concatenate(x: object, y: object) -> str:
    """Concatenate two values, at least one of which is text."""
    text = _text(x) + _text(y)
    if len(text) > MAX_TEXT_CHARACTERS:
        raise NoResult(f"text has at most {MAX_TEXT_CHARACTERS} characters")
    return text


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < MAX_EXACT else repr(value)
    raise NoResult("a list cannot be concatenated with text")


def _whole(value: float) -> int:
    if not value.is_integer() or not -MAX_EXACT < value < MAX_EXACT:
        raise NoResult(f"bit operators take whole numbers below 2**53, not {value:g}")
    return int(value)


def _bits(operation: Callable[[int, int], int]) -> Callable[[float, float], float]:
    return lambda x, y: float(operation(_whole(x), _whole(y)))


def shift_left(x: float, y: float) -> float:
    result = float(_whole(x) << _places(y))
    if not -MAX_EXACT < result < MAX_EXACT:
        raise NoResult("the shifted number must be below 2**53")
    return result


def shift_right(x: float, y: float) -> float:
    return float(_whole(x) >> _places(y))


def _places(value: float) -> int:
    places = _whole(value)
    if not 0 <= places <= 52:
        raise NoResult(f"a shift takes 0 to 52 places, not {places}")
    return places


def bit_not(x: float) -> float:
    return float(~_whole(x))


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "-": operator.sub,
    "*": operator.mul,
    "/": divide,
    "%": remainder,
    "**": power,
    "&": _bits(operator.and_),
    "|": _bits(operator.or_),
    "^": _bits(operator.xor),
    "<<": shift_left,
    ">>": shift_right,
}
ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _rounded(x: float, digits: float = 0.0) -> float:
    """Round to nearest, halves away from zero, as Go does; at most 15 digits."""
    places = _whole(digits)
    if not 0 <= places <= 15:
        raise NoResult(f"round takes 0 to 15 digits, not {places}")
    scale = 10.0**places
    scaled = abs(x) * scale
    if scaled >= MAX_EXACT:
        return x
    return math.copysign(math.floor(scaled + 0.5) / scale, x)


CALLS: dict[str, Callable[..., float]] = {
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "abs": abs,
    "ceil": lambda x: float(math.ceil(x)),
    "floor": lambda x: float(math.floor(x)),
    "round": _rounded,
}

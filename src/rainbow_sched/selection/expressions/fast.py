"""The most frequent operations, specialised so that each costs one call.

`make_error(x, y)` builds the exception for values without a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rainbow_sched.selection.expressions.operations import MAX_FLOAT

Run: TypeAlias = Callable[[Mapping[str, Any]], Any]
MakeError: TypeAlias = Callable[[Any, Any], Exception]


def multiply(left: Run, right: Run, make_error: MakeError) -> Run:
    """left * right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            result = x * y
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
        raise make_error(x, y)

    return run


def divide(left: Run, right: Run, make_error: MakeError) -> Run:
    """left / right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float and y:
            result = x / y
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
        raise make_error(x, y)

    return run


def subtract(left: Run, right: Run, make_error: MakeError) -> Run:
    """left - right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            result = x - y
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
        raise make_error(x, y)

    return run


def divide_by_constant(left: Run, y: float, make_error: MakeError) -> Run:
    """left / y for a number that is not 0"""

    def run(env: Mapping[str, Any]) -> Any:
        x = left(env)
        if x.__class__ is float:
            result = x / y
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
        raise make_error(x, y)

    return run


def multiply_by_constant(left: Run, y: float, make_error: MakeError) -> Run:
    """left * y"""

    def run(env: Mapping[str, Any]) -> Any:
        x = left(env)
        if x.__class__ is float:
            result = x * y
            if -MAX_FLOAT <= result <= MAX_FLOAT:
                return result
        raise make_error(x, y)

    return run


def minimum(left: Run, right: Run, make_error: MakeError) -> Run:
    """min(left, right)"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            return x if x <= y else y
        raise make_error(x, y)

    return run


def maximum(left: Run, right: Run, make_error: MakeError) -> Run:
    """max(left, right)"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            return x if x >= y else y
        raise make_error(x, y)

    return run


GENERAL: dict[str, Callable[[Run, Run, MakeError], Run]] = {"*": multiply, "/": divide, "-": subtract}
BY_CONSTANT: dict[str, Callable[[Run, float, MakeError], Run]] = {"*": multiply_by_constant, "/": divide_by_constant}
OF_TWO: dict[str, Callable[[Run, Run, MakeError], Run]] = {"min": minimum, "max": maximum}

"""The operations that nearly every expression is made of, written out so that each is one call.

`wrong(x, y)` makes the error for values without a result; the good path never calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from rainbow_sched.selection.expressions.operations import LARGEST

Run: TypeAlias = Callable[[Mapping[str, Any]], Any]
Wrong: TypeAlias = Callable[[Any, Any], Exception]


def times(left: Run, right: Run, wrong: Wrong) -> Run:
    """left * right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            result = x * y
            if -LARGEST <= result <= LARGEST:
                return result
        raise wrong(x, y)

    return run


def over(left: Run, right: Run, wrong: Wrong) -> Run:
    """left / right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float and y:
            result = x / y
            if -LARGEST <= result <= LARGEST:
                return result
        raise wrong(x, y)

    return run


def minus(left: Run, right: Run, wrong: Wrong) -> Run:
    """left - right"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            result = x - y
            if -LARGEST <= result <= LARGEST:
                return result
        raise wrong(x, y)

    return run


def over_constant(left: Run, y: float, wrong: Wrong) -> Run:
    """left / y for a number that is not 0"""

    def run(env: Mapping[str, Any]) -> Any:
        x = left(env)
        if x.__class__ is float:
            result = x / y
            if -LARGEST <= result <= LARGEST:
                return result
        raise wrong(x, y)

    return run


def times_constant(left: Run, y: float, wrong: Wrong) -> Run:
    """left * y"""

    def run(env: Mapping[str, Any]) -> Any:
        x = left(env)
        if x.__class__ is float:
            result = x * y
            if -LARGEST <= result <= LARGEST:
                return result
        raise wrong(x, y)

    return run


def least(left: Run, right: Run, wrong: Wrong) -> Run:
    """min(left, right)"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            return x if x <= y else y
        raise wrong(x, y)

    return run


def most(left: Run, right: Run, wrong: Wrong) -> Run:
    """max(left, right)"""

    def run(env: Mapping[str, Any]) -> Any:
        x, y = left(env), right(env)
        if x.__class__ is float and y.__class__ is float:
            return x if x >= y else y
        raise wrong(x, y)

    return run


GENERAL: dict[str, Callable[[Run, Run, Wrong], Run]] = {"*": times, "/": over, "-": minus}
BY_CONSTANT: dict[str, Callable[[Run, float, Wrong], Run]] = {"*": times_constant, "/": over_constant}
OF_TWO: dict[str, Callable[[Run, Run, Wrong], Run]] = {"min": least, "max": most}

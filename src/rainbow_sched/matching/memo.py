"""Methods that keep their results in their object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


class Memoized(Generic[T, P, R]):
    """Call a method once for equal arguments; without a bound, so only for objects that live as long as one call."""

    def __init__(self, method: Callable[Concatenate[T, P], R]) -> None:
        self._method: Callable[..., R] = method

    def __get__(self, instance: T, owner: type[T]) -> Callable[P, R]:
        """Make the table of one object; from then on, the object's own attribute hides this one."""
        method = self._method
        results: dict[Any, R] = {}

        def call(*arguments: Any) -> R:
            try:
                return results[arguments]
            except KeyError:
                return results.setdefault(arguments, method(instance, *arguments))

        memoized: Callable[..., R] = call
        instance.__dict__[method.__name__] = memoized
        return memoized

"""Methods that keep their results in their object."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from types import MethodType
from typing import Concatenate, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")


def memoized(method: Callable[Concatenate[T, P], R]) -> cached_property[Callable[P, R]]:
    """Call a method once for equal arguments; without a bound, so only for objects that live as long as one call."""

    def results(self: T) -> Callable[P, R]:
        cached: Callable[..., R] = cache(MethodType(method, self))
        return cached

    return cached_property(results)

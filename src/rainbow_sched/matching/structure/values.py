"""Index of facts by field value: a lookup for equality, a bisection for ranges.

Sets of facts are bit sets (integers), so that unions and intersections of hundreds of facts are one operation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import accumulate
from operator import or_
from typing import Any

from rainbow_sched.model.request import Equals, Runs, Scalar, Term
from rainbow_sched.model.versions import is_number, is_version, texts, version_key, within

RunsRelation = Callable[[str, str], bool]  # (microarchitecture, target): whether it runs code built for the target


def bits_of(numbers: Iterable[int]) -> int:
    """Return a set of small numbers as a bit set."""
    return union(1 << number for number in numbers)


def union(bit_sets: Iterable[int]) -> int:
    """Return the union of bit sets."""
    return reduce(or_, bit_sets, 0)


def numbers_of(bits: int) -> Iterator[int]:
    """Iterate over the numbers in a bit set, ascending."""
    text = bin(bits)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


class _Sorted:
    """Sorted values with their facts, and the unions of facts from and up to each position."""

    def __init__(self) -> None:
        self.keys: list[Any] = []
        self._bits: list[int] = []
        self._from: list[int] = []
        self._upto: list[int] = []

    def add(self, key: Any, bit: int) -> None:
        at = bisect_left(self.keys, key)
        if at < len(self.keys) and self.keys[at] == key:
            self._bits[at] |= bit
        else:
            self.keys.insert(at, key)
            self._bits.insert(at, bit)
        self._from = []

    def between(self, least: Any, most: Any) -> int:
        """Return the facts whose value is from `least` to `most`; None is no bound."""
        if not self._from:
            self._upto = list(accumulate(self._bits, or_, initial=0))
            self._from = list(accumulate(reversed(self._bits), or_, initial=0))[::-1]
        found = self._from[0 if least is None else bisect_left(self.keys, least)]
        return found if most is None else found & self._upto[bisect_right(self.keys, most)]


class FieldValues:
    """All values of one field of one subsystem."""

    def __init__(self) -> None:
        self._by_text: dict[str, int] = {}
        self._numbers = _Sorted()  # JSON numbers, as numbers
        self._number_texts = _Sorted()  # JSON numbers that are versions, as versions
        self._texts = _Sorted()  # other versions
        self._several: dict[int, tuple[Scalar, ...]] = {}  # facts with more than one value, by number

    def add(self, fact: int, values: tuple[Scalar, ...]) -> None:
        """Add a fact with its values."""
        bit = 1 << fact
        for value in values:
            for text in texts(value):
                self._by_text[text] = self._by_text.get(text, 0) | bit
        if len(values) > 1:
            self._several[fact] = values
            return
        [value] = values
        if value != value:  # NaN is in no range
            return
        if is_number(value):
            self._numbers.add(value, bit)
            if is_version(value):
                self._number_texts.add(version_key(texts(value)[0]), bit)
        elif is_version(value):
            self._texts.add(version_key(texts(value)[0]), bit)

    def meeting(self, term: Term, runs: RunsRelation) -> int:
        """Return the facts that meet a term, as a bit set."""
        if isinstance(term, Equals):
            return union(self._by_text.get(text, 0) for text in texts(term.value))
        if isinstance(term, Runs):
            return union(bits for text, bits in self._by_text.items() if runs(text, term.target))
        return self._in_range(term.min, term.max)

    def _in_range(self, least: Scalar | None, most: Scalar | None) -> int:
        if least != least or most != most:
            return 0
        low = None if least is None else version_key(texts(least)[0])
        high = None if most is None else version_key(texts(most)[0])
        bounds = [bound for bound in (least, most) if bound is not None]
        found = 0
        if self._texts.keys and all(is_version(bound) for bound in bounds):
            found = self._texts.between(low, high)
        if self._numbers.keys and all(is_number(bound) or is_version(bound) for bound in bounds):
            numeric, versions = self._numbers, self._number_texts
            found |= (numeric if is_number(least) or least is None else versions).between(
                least if is_number(least) else low, None
            ) & (numeric if is_number(most) or most is None else versions).between(
                None, most if is_number(most) else high
            )
        several = self._several.items()
        return found | bits_of(fact for fact, values in several if any(within(value, least, most) for value in values))

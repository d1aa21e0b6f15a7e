"""Which facts have which value in a field: found by lookup for equality, by one cut in a sorted list for a range.

Sets of facts are numbers whose bits are the facts' numbers, so that joining and cutting sets of
hundreds of facts is one operation each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rainbow_sched.model.request import Equals, Runs, Scalar, Term
from rainbow_sched.model.versions import is_number, is_version, texts, version_key, within

RunsRelation = Callable[[str, str], bool]  # (what the graph says, the target): can the first run code for the second?


def bits_of(numbers: Iterable[int]) -> int:
    """A set of small numbers as one."""
    found = 0
    for number in numbers:
        found |= 1 << number
    return found


def numbers_of(bits: int) -> Iterator[int]:
    """The small numbers of a set, ascending."""
    text = bin(bits)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


class _Sorted:
    """Values in order, each with its facts, and for each place all facts from there on and up to there."""

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
        """Facts whose value is neither below `least` nor above `most`; None does not bind."""
        if not self._from:
            self._add_up()
        found = self._from[0 if least is None else bisect_left(self.keys, least)]
        return found if most is None else found & self._upto[bisect_right(self.keys, most)]

    def _add_up(self) -> None:
        upto = [0]
        for bits in self._bits:
            upto.append(upto[-1] | bits)
        rest = [0]
        for bits in reversed(self._bits):
            rest.append(rest[-1] | bits)
        self._upto, self._from = upto, rest[::-1]


class FieldValues:
    """One field of one subsystem: every value that a fact has in it."""

    def __init__(self) -> None:
        self._by_text: dict[str, int] = {}
        self._numbers = _Sorted()  # JSON numbers, as numbers
        self._number_texts = _Sorted()  # those that can be read as versions, as such
        self._texts = _Sorted()  # all else that is a version
        self._several: dict[int, tuple[Scalar, ...]] = {}  # facts with more than one value, by number

    def add(self, fact: int, values: tuple[Scalar, ...]) -> None:
        """A new fact with its values."""
        bit = 1 << fact
        for value in values:
            for text in texts(value):
                self._by_text[text] = self._by_text.get(text, 0) | bit
        if len(values) > 1:
            self._several[fact] = values
            return
        [value] = values
        if value != value:  # not a number: it lies in no range
            return
        if is_number(value):
            self._numbers.add(value, bit)
            if is_version(value):
                self._number_texts.add(version_key(texts(value)[0]), bit)
        elif is_version(value):
            self._texts.add(version_key(texts(value)[0]), bit)

    def meeting(self, term: Term, runs: RunsRelation) -> int:
        """The facts that meet a term."""
        if isinstance(term, Equals):
            found = 0
            for text in texts(term.value):
                found |= self._by_text.get(text, 0)
            return found
        if isinstance(term, Runs):
            found = 0
            for text, bits in self._by_text.items():
                if runs(text, term.target):
                    found |= bits
            return found
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
        for fact, values in self._several.items():
            if any(within(value, least, most) for value in values):
                found |= 1 << fact
        return found

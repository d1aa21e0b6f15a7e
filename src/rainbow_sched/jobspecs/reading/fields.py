"""Typed reading of plain data that always knows its path, so that each error names the key at fault."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rainbow_sched.jobspecs.reading.documents import child
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Scalar


@dataclass(frozen=True, slots=True)
class At:
    """A value and where it stands in its document."""

    value: object
    path: str = ""

    def refuse(self, message: str) -> Invalid:
        """The error to raise about this value."""
        return Invalid(message, where=self.path)

    def keys(self, known: Collection[str] | None = None) -> Mapping[str, At]:
        """A map's entries; with `known`, any other key is refused with a hint, and a key without a value is absent."""
        if not isinstance(self.value, dict):
            raise self.refuse(f"expected a map, not {_named(self.value)}")
        for key in self.value:
            if known is not None and key not in known:
                where = child(self.path, key)
                raise Invalid(f"unknown key {key[:60]!r}{did_you_mean(key, known)}", where=where)
        return {
            key: At(value, child(self.path, key))
            for key, value in self.value.items()
            if value is not None or known is None
        }

    def items(self) -> list[At]:
        """A list's entries."""
        if not isinstance(self.value, list):
            raise self.refuse(f"expected a list, not {_named(self.value)}")
        return [At(value, child(self.path, index)) for index, value in enumerate(self.value)]

    def one_or_more(self) -> list[At]:
        """A list's entries, of which there must be one."""
        found = self.items()
        if not found:
            raise self.refuse("expected at least one entry")
        return found

    def text(self) -> str:
        """Text that is not empty."""
        if not isinstance(self.value, str) or not self.value:
            raise self.refuse(f"expected text, not {_named(self.value)}")
        return self.value

    def whole(self, least: int = 1) -> int:
        """A whole number of at least `least`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < least:
            raise self.refuse(f"expected a whole number of at least {least}, not {_named(self.value)}")
        return self.value

    def number(self) -> float:
        """A number of at least zero."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool) or self.value < 0:
            raise self.refuse(f"expected a number of at least 0, not {_named(self.value)}")
        return float(self.value)

    def yes(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.refuse(f"expected true or false, not {_named(self.value)}")
        return self.value

    def scalar(self) -> Scalar:
        """Text, a number or a boolean."""
        if not isinstance(self.value, str | int | float | bool):
            raise self.refuse(f"expected text, a number, true or false, not {_named(self.value)}")
        return self.value


def need(entries: Mapping[str, At], key: str, of: At) -> At:
    """The entry `key`, which must be there."""
    if key not in entries:
        raise of.refuse(f"the key {key!r} is missing")
    return entries[key]


def _named(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."

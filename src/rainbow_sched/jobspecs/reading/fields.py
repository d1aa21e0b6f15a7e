"""Typed access to plain data, with the path of each value for error messages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rainbow_sched.documents.reader import child_path
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Scalar


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a document with its path."""

    value: object
    path: str = ""

    def error(self, message: str) -> Invalid:
        """Return the error to raise for this value."""
        return Invalid(message, where=self.path)

    def keys(self, known: Collection[str] | None = None) -> Mapping[str, Entry]:
        """Return the entries of a map; with `known`, refuse other keys with a hint and skip keys without a value."""
        if not isinstance(self.value, dict):
            raise self.error(f"expected a map, not {_named(self.value)}")
        for key in self.value:
            if known is not None and key not in known:
                where = child_path(self.path, key)
                raise Invalid(f"unknown key {key[:60]!r}{did_you_mean(key, known)}", where=where)
        return {
            key: Entry(value, child_path(self.path, key))
            for key, value in self.value.items()
            if value is not None or known is None
        }

    def items(self) -> list[Entry]:
        """Return the entries of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"expected a list, not {_named(self.value)}")
        return [Entry(value, child_path(self.path, index)) for index, value in enumerate(self.value)]

    def nonempty_items(self) -> list[Entry]:
        """Return the entries of a list that must not be empty."""
        items = self.items()
        if not items:
            raise self.error("expected at least one entry")
        return items

    def text(self, *, may_be_empty: bool = False) -> str:
        if not isinstance(self.value, str) or not (self.value or may_be_empty):
            raise self.error(f"expected text, not {_named(self.value)}")
        return self.value

    def integer(self) -> int:
        """Return an integer of at least 1."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 1:
            raise self.error(f"expected a whole number of at least 1, not {_named(self.value)}")
        return self.value

    def number(self) -> float:
        """Return a number of at least 0."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool) or self.value < 0:
            raise self.error(f"expected a number of at least 0, not {_named(self.value)}")
        return float(self.value)

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.error(f"expected true or false, not {_named(self.value)}")
        return self.value

    def scalar(self) -> Scalar:
        """Return text, a number or a boolean."""
        if not isinstance(self.value, str | int | float | bool):
            raise self.error(f"expected text, a number, true or false, not {_named(self.value)}")
        return self.value


@contextmanager
def located(where: str) -> Iterator[None]:
    """Add the place `where` to an error of a reader that does not know where its text stands."""
    try:
        yield
    except Invalid as error:
        raise type(error)(error.what, where=where) from None


def required(entries: Mapping[str, Entry], key: str, of: Entry) -> Entry:
    """Return the entry `key`; raise Invalid if it is missing."""
    if key not in entries:
        raise of.error(f"the key {key!r} is missing")
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

"""Convert between database rows and the classes of the model and of the store's interface."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from rainbow_sched.model.attempt import Attempt, AttemptState, Failure
from rainbow_sched.model.errors import Corrupt
from rainbow_sched.model.job import Delivery, Hold, Job, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store.named_sql import Value
from rainbow_sched.store.session import Row
from rainbow_sched.store.tables.table import check_number, decoded, encoded, intact, to_json

M = TypeVar("M")


class Codec(NamedTuple):
    """How a column stores a value of a type that the database does not have."""

    load: Callable[[Any], Any]
    dump: Callable[[Any], Value]


class RowFormat(Generic[M]):
    """The rows of a class: its queries select one column per field, in the order of the fields.

    NULL stands for the default of a field.
    """

    def __init__(self, kind: type[M], /, without: Collection[str] = (), **codecs: Codec) -> None:
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
        self.columns = tuple(name for name in names if name not in without)
        self._kind = kind
        self._codecs = {name: codec for name, codec in codecs.items() if name not in without}

    def without(self, *names: str) -> RowFormat[M]:
        """Return the format of the other columns, for a statement that stores only these."""
        return RowFormat(self._kind, without=names, **self._codecs)

    def load(self, row: Iterable[Any]) -> M:
        """Return the object that a row holds."""
        values = {name: value for name, value in zip(self.columns, row, strict=True) if value is not None}
        for name, codec in self._codecs.items():
            if name in values:
                values[name] = codec.load(values[name])
        return self._kind(**values)

    def one(self, rows: Sequence[Row]) -> M | None:
        """Return the object of the only row, or None."""
        return self.load(rows[0]) if rows else None

    def all(self, rows: Iterable[Row]) -> list[M]:
        """Return the object of each row."""
        return [self.load(row) for row in rows]

    def dump(self, item: M) -> dict[str, Value]:
        """Return the fields of an object as the values of a statement."""
        values: dict[str, Value] = {name: getattr(item, name) for name in self.columns}
        for name, codec in self._codecs.items():
            if values[name] is not None:
                values[name] = codec.dump(values[name])
        return values


def choice(kind: type[StrEnum]) -> Codec:
    """Return the codec of an enumeration."""
    return Codec({one.value: one for one in kind}.__getitem__, attrgetter("value"))  # faster than `kind`


FLAG = Codec(bool, int)
NAMES = Codec(lambda text: tuple(json.loads(text)), to_json)
MAPPING = Codec(lambda text: {} if text == "{}" else json.loads(text), to_json)
BYTES = Codec(bytes, bytes)
_TIME = Codec(float, float)  # SQLite's RETURNING gives whole numbers as int

_DEFAULTS = Terms()
_TERM_NAMES = tuple(f.name for f in fields(Terms))


def terms_text(terms: Terms) -> str:
    """Encode Terms as JSON without default values. Retries without `reruns` come from a server from before reruns."""
    if terms == _DEFAULTS:
        return "{}"
    values = {name: getattr(terms, name) for name in _TERM_NAMES}
    given = {k: v for k, v in values.items() if v != getattr(_DEFAULTS, k)}
    if given.pop("before_reruns", False):
        given.pop("reruns", None)
    elif terms.retries:
        given["reruns"] = terms.reruns
    return to_json(given)


@lru_cache(maxsize=8192)
def terms_of(text: str) -> Terms:
    """Decode the Terms that `terms_text` encoded."""
    given: dict[str, Any] = json.loads(text)
    if "delivery" in given:
        given["delivery"] = Delivery(given["delivery"])
    if "reruns" not in given and ("retries" in given or "delivery" in given):
        given["before_reruns"] = True
    for name in ("only_clusters", "not_clusters", "opened"):
        if name in given:
            given[name] = tuple(given[name])
    return Terms(**given)


_TEXT = Codec(decoded, encoded)
JOBS = RowFormat(
    Job, state=choice(JobState), hold=choice(Hold), spec=_TEXT, source=_TEXT, terms=Codec(terms_of, terms_text)
)
ATTEMPTS = RowFormat(
    Attempt,
    state=choice(AttemptState),
    created_at=_TIME,
    lease_until=_TIME,
    failure=choice(Failure),
    suspect=FLAG,
    guarded=FLAG,
)


def job_of(row: Row, *, check: bool) -> Job:
    """Convert the columns of `job_columns`; with `check`, raise Corrupt if the stored request has changed since."""
    spec_digest, spec, spec_check, source = row[5:9]
    if check and not (intact(spec_digest, spec) and check_number(bytes(spec_digest)) == spec_check):
        raise Corrupt(f"the stored request of job {row[0]} is damaged: its hash does not match; it is never run")
    return JOBS.load((*row[:5], spec or b"", source, *row[9:]))

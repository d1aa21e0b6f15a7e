"""Generated messages, derived from the fields of the classes: a new field is generated without a change here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.job import END_OF_TIME
from rainbow_sched.protocol.messages import (
    MAX_SECONDS,
    AllowedHosts,
    BidRequest,
    KnownAttempt,
    Offer,
    Report,
    ReportedFacts,
    SyncAnswer,
    SyncMessage,
    SyncRequest,
)
from rainbow_sched.protocol.report_reader import REPORTED

SET_BY_CODEC = {(SyncMessage, "unknown"), (Offer, "unreadable"), (BidRequest, "unreadable")}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)
WORDS = st.text("abc", min_size=1, max_size=4)
TIMES = st.floats(0, END_OF_TIME, exclude_max=True)
SECONDS = st.floats(0, MAX_SECONDS, exclude_min=True, exclude_max=True)
SCALARS = st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(-1e18, 1e18)
HOSTS = st.lists(st.sampled_from(["n1", "n2", "n10", "login", "m-3"]), min_size=1, unique=True).map(tuple)


def messages(cls: type, *, full: bool = False) -> st.SearchStrategy[Any]:
    """Return instances of a class. `full`: every field has a value, and not its default."""
    if cls is Report:
        return st.sampled_from(sorted(REPORTED)).flatmap(lambda state: _reports(state, full=full))
    made = st.builds(cls, **_strategies(cls, full=full))
    if cls is AllowedHosts:  # hosts are only ever sent by a server that computes them
        return made.map(lambda one: replace(one, checked=one.checked or bool(one.groups)))
    return made


def _strategies(cls: type, *, full: bool) -> dict[str, st.SearchStrategy[Any]]:
    hints = get_type_hints(cls)
    names = [field.name for field in fields(cls) if (cls, field.name) not in SET_BY_CODEC]
    return {name: _field(cls, name, hints[name], full=full) for name in names}


def _reports(state: AttemptState, *, full: bool) -> st.SearchStrategy[Any]:
    """Return reports that a server understands."""
    state = AttemptState.FAILED if full else state
    may_fail = state not in LIVE and state not in (AttemptState.SUCCEEDED, AttemptState.RETURNED)
    failures = st.sampled_from([failure for failure in Failure if failure is not Failure.LOST])
    codes, none = st.integers(1, 255), st.none()
    special = {
        "state": st.just(state),
        "exit_code": codes if full else codes | none if may_fail else none,
        "failure": failures if full else failures | none if may_fail else none,
        "started_at": TIMES if full else TIMES | none,
        "ended_at": TIMES if full else TIMES | none,
    }
    return st.builds(Report, **{**_strategies(Report, full=full), **special})


_SPECIAL: Mapping[tuple[type, str], Callable[[bool], st.SearchStrategy[Any]]] = {  # else the codec replaces values
    (Offer, "lease"): lambda full: SECONDS,
    (Offer, "terms"): lambda full: WORDS,
    (SyncAnswer, "heartbeat"): lambda full: SECONDS,
    (BidRequest, "deadline"): lambda full: SECONDS,
    (GroupHosts, "hosts"): lambda full: HOSTS,
    (NodeRules, "one_group"): lambda full: WORDS if full else WORDS | st.just(""),
    (KnownAttempt, "report"): lambda full: messages(Report, full=True) if full else st.none() | messages(Report),
    (SyncMessage, "facts"): lambda full: messages(ReportedFacts, full=True) if full else st.none() | _some_facts(),
}


def _field(cls: type, name: str, hint: Any, *, full: bool) -> st.SearchStrategy[Any]:
    special = _SPECIAL.get((cls, name))
    return _values(hint, full=full) if special is None else special(full)


def _some_facts() -> st.SearchStrategy[Any]:
    return messages(ReportedFacts).filter(lambda facts: facts != ReportedFacts())


def _values(hint: Any, *, full: bool) -> st.SearchStrategy[Any]:
    """Return values of a type."""
    size, origin, args = int(full), get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [_values(one, full=full) for one in args if one is not NoneType]
        return st.one_of(kinds if full else [st.none(), *kinds])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(_values(args[0], full=full), min_size=size, max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(_values(one, full=full) for one in args))
    if origin is frozenset:
        return st.frozensets(WORDS, min_size=size, max_size=2)
    if origin is Mapping:
        return st.dictionaries(WORDS, _values(args[1], full=full), min_size=size, max_size=2)
    if isinstance(hint, type) and is_dataclass(hint):
        return messages(hint, full=full)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    plain = {
        bool: st.just(True) if full else st.booleans(),
        int: st.integers(1 if full else 0, 2**31 - 1),
        float: st.floats(2, 24) if full else st.floats(allow_nan=False),
        str: WORDS if full else TEXTS,
        bytes: st.binary(min_size=size, max_size=4),
        object: SCALARS,
    }
    return plain[hint]


def defaults_in(value: Any, path: str = "") -> list[str]:
    """Return the paths of all fields in a value that have their defaults."""
    if isinstance(value, tuple | list):
        return [found for one in value for found in defaults_in(one, path)]
    if not is_dataclass(value):
        return []
    found = []
    for field in fields(value):
        inner, where = getattr(value, field.name), f"{path}.{field.name}"
        if (type(value), field.name) in SET_BY_CODEC:
            continue
        found += [where] if inner == _default(field) else defaults_in(inner, where)
    return found


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


REQUESTS, ANSWERS = messages(SyncRequest), messages(SyncAnswer)
FULL_REQUESTS, FULL_ANSWERS = messages(SyncRequest, full=True), messages(SyncAnswer, full=True)

"""Read the `requires` of a jobspec, which is a list of entries or a tree per subsystem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.reading.fields import Entry, required
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term, Within
from rainbow_sched.model.versions import bound_problem

_TERM = ("field", "match", "value", "min", "max", "runs", "attribute")
_TESTS = ("match", "min", "max", "runs")


def parse_requires(entry: Entry) -> tuple[Requirement, ...]:
    """Read the list `[{name, field, match}]` or the tree `{subsystem: [{type, field: value, with: []}]}`."""
    if isinstance(entry.value, dict):
        return tuple(one for name, block in entry.keys().items() for one in _block(name, block))
    return tuple(_entry(item, "") for item in entry.items())


def require_at_nodes(level: Level, requirements: tuple[Requirement, ...]) -> Level:
    """Return the level with requirements added to its nodes, or else to its leaves."""
    if level.type == "node" or not level.inside:
        return replace(level, requires=level.requires + requirements)
    return replace(level, inside=tuple(require_at_nodes(inner, requirements) for inner in level.inside))


def _block(name: str, entry: Entry) -> list[Requirement]:
    """Read the value of one key: a list of vertices or entries, or one map of fields."""
    if not name:
        raise entry.error("the subsystem has no name")
    if isinstance(entry.value, dict):
        return [_vertex(name, entry)]
    if not isinstance(entry.value, list):
        raise entry.error(f"expected fields below the subsystem {name[:40]!r}, as in {{{name[:40]}: {{field: value}}}}")
    return [_entry(item, name) if _is_entry(item) else _vertex(name, item) for item in entry.nonempty_items()]


def _is_entry(entry: Entry) -> bool:
    return isinstance(entry.value, dict) and ("field" in entry.value or isinstance(entry.value.get("all"), list))


def _entry(entry: Entry, subsystem: str) -> Requirement:
    """Read one entry of the list form; with `all`, one vertex must satisfy several fields."""
    entries = entry.keys(("name", "all", *_TERM))
    name = subsystem if subsystem and "name" not in entries else required(entries, "name", entry).text()
    if "all" in entries:
        for key in _TERM:
            if key in entries:
                raise entries[key].error("move this key into 'all'")
        terms = [term for item in entries["all"].nonempty_items() for term in _terms(item, item.keys(_TERM))]
        return Requirement(name, tuple(terms))
    return Requirement(name, tuple(_terms(entry, entries)))


def _terms(entry: Entry, keys: Mapping[str, Entry]) -> list[Term]:
    """Read the terms of one entry: equality, a range, or `runs`."""
    field = required(keys, "field", entry).text()
    terms: list[Term] = []
    if "match" in keys:
        terms.append(Equals(field, keys["match"].scalar()))
    if "attribute" in keys:  # {field, match, attribute, value}: two fields of one vertex
        terms.append(Equals(keys["attribute"].text(), required(keys, "value", entry).scalar()))
    elif "value" in keys:
        if "match" in keys:
            raise keys["value"].error("give match or value, not both")
        terms.append(Equals(field, keys["value"].scalar()))
    terms.extend(_range_and_runs(field, keys))
    if not terms:
        raise entry.error(f"the field {field[:40]!r} needs match, min, max or runs")
    return terms


def _range_and_runs(field: str, keys: Mapping[str, Entry]) -> list[Term]:
    terms: list[Term] = []
    if "min" in keys or "max" in keys:
        terms.append(read_range(field, keys))
    if "runs" in keys:
        terms.append(Runs(field, keys["runs"].text()))
    return terms


def read_range(field: str, keys: Mapping[str, Entry]) -> Within:
    """Read an inclusive range with `min`, `max` or both; refuse bounds that no value can satisfy."""
    return Within(field, **{key: read_bound(keys[key]) for key in ("min", "max") if key in keys})


def read_bound(entry: Entry) -> Scalar:
    """Read a number or a version."""
    bound = entry.scalar()
    problem = bound_problem(bound)
    if problem is not None:
        raise entry.error(problem)
    return bound


def check_bounds(request: Request) -> None:
    """Refuse a new request with bounds that no value can satisfy; stored requests are not checked."""
    for requirement in (*request.requires, *(one for level in request.walk() for one in level.requires)):
        _check(requirement)


def _check(requirement: Requirement) -> None:
    for term in requirement.terms:
        for bound in (term.min, term.max) if isinstance(term, Within) else ():
            problem = None if bound is None else bound_problem(bound)
            if problem is not None:
                raise Invalid(problem, where=f"{requirement.subsystem} {term.field}")
    for below in requirement.below:
        _check(below)


def _vertex(subsystem: str, entry: Entry) -> Requirement:
    """Read one vertex of the tree form: its fields, and under `with` the vertices below it."""
    terms: list[Term] = []
    below: tuple[Requirement, ...] = ()
    for field, value in entry.keys().items():
        if field == "with":
            below = tuple(_vertex(subsystem, item) for item in value.nonempty_items())
        elif not field:
            raise value.error("the field has no name")
        elif isinstance(value.value, dict):
            tests = value.keys(_TESTS)
            if not tests:
                raise value.error("expected match, min, max or runs")
            if "match" in tests:
                terms.append(Equals(field, tests["match"].scalar()))
            terms.extend(_range_and_runs(field, tests))
        else:
            terms.append(Equals(field, value.scalar()))
    if not terms and not below:
        raise entry.error(f"a requirement on {subsystem[:40]!r} is empty: give a field with its value")
    return Requirement(subsystem, tuple(terms), below)

"""The `requires` of a jobspec, as a list of entries or as a tree per subsystem, into requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rainbow_sched.jobspecs.reading.fields import At, need
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term, Within
from rainbow_sched.model.versions import bound_problem

_TERM = ("field", "match", "value", "min", "max", "runs", "attribute")
_TESTS = ("match", "min", "max", "runs")


def parse_requires(at: At) -> tuple[Requirement, ...]:
    """Read either form: `[{name, field, match}]`, or `{subsystem: [{type, field: value, with: []}]}`."""
    if isinstance(at.value, dict):
        return tuple(one for name, block in at.keys().items() for one in _block(name, block))
    return tuple(_entry(item, "") for item in at.items())


def everywhere(level: Level, requirements: tuple[Requirement, ...]) -> Level:
    """The level with requirements added where a job's processes live: at its nodes, else at what is taken."""
    if level.type == "node" or not level.inside:
        return replace(level, requires=level.requires + requirements)
    return replace(level, inside=tuple(everywhere(inner, requirements) for inner in level.inside))


def blocks(at: At) -> tuple[str, ...]:
    """The names under which a map's requirements can be referred to."""
    return tuple(at.keys()) if isinstance(at.value, dict) else ()


def _block(name: str, at: At) -> list[Requirement]:
    """What stands under one key: a list of vertices or of entries, or one map of fields."""
    if not name:
        raise at.refuse("the subsystem has no name")
    if isinstance(at.value, dict):
        return [_vertex(name, at)]
    if not isinstance(at.value, list):
        raise at.refuse(f"expected fields below the subsystem {name[:40]!r}, as in {{{name[:40]}: {{field: value}}}}")
    return [_entry(item, name) if _is_entry(item) else _vertex(name, item) for item in at.one_or_more()]


def _is_entry(at: At) -> bool:
    return isinstance(at.value, dict) and ("field" in at.value or isinstance(at.value.get("all"), list))


def _entry(at: At, subsystem: str) -> Requirement:
    """One entry of the list form; `all` ties several fields to one vertex."""
    entries = at.keys(("name", "all", *_TERM))
    name = subsystem if subsystem and "name" not in entries else need(entries, "name", at).text()
    if "all" in entries:
        for key in _TERM:
            if key in entries:
                raise entries[key].refuse("write it inside 'all', beside the other fields")
        terms = [term for item in entries["all"].one_or_more() for term in _terms(item, item.keys(_TERM))]
        return Requirement(name, tuple(terms))
    return Requirement(name, tuple(_terms(at, entries)))


def _terms(at: At, keys: Mapping[str, At]) -> list[Term]:
    """The terms of one entry: equality, a range, or what the field can run."""
    field = need(keys, "field", at).text()
    terms: list[Term] = []
    if "match" in keys:
        terms.append(Equals(field, keys["match"].scalar()))
    if "attribute" in keys:  # {field, match, attribute, value}: two fields of one vertex
        terms.append(Equals(keys["attribute"].text(), need(keys, "value", at).scalar()))
    elif "value" in keys:
        if "match" in keys:
            raise keys["value"].refuse("give match or value, not both")
        terms.append(Equals(field, keys["value"].scalar()))
    terms.extend(_range_and_runs(field, keys))
    if not terms:
        raise at.refuse(f"the field {field[:40]!r} needs match, min, max or runs")
    return terms


def _range_and_runs(field: str, keys: Mapping[str, At]) -> list[Term]:
    terms: list[Term] = []
    if "min" in keys or "max" in keys:
        terms.append(read_range(field, keys))
    if "runs" in keys:
        terms.append(Runs(field, keys["runs"].text()))
    return terms


def read_range(field: str, keys: Mapping[str, At]) -> Within:
    """An inclusive range by its `min` and `max`, of which one may be missing; refuse bounds that nothing could meet."""
    return Within(field, **{key: read_bound(keys[key]) for key in ("min", "max") if key in keys})


def read_bound(at: At) -> Scalar:
    """A number or a version."""
    bound = at.scalar()
    problem = bound_problem(bound)
    if problem is not None:
        raise at.refuse(problem)
    return bound


def check_bounds(request: Request) -> None:
    """Refuse a new request with bounds that nothing could meet; those of stored ones are read as they are."""
    of_levels = [level.requires for group in request.groups for top in group.levels for level in top.walk()]
    for requirement in (one for requires in (request.requires, *of_levels) for one in requires):
        _check(requirement)


def _check(requirement: Requirement) -> None:
    for term in requirement.terms:
        for bound in (term.min, term.max) if isinstance(term, Within) else ():
            problem = None if bound is None else bound_problem(bound)
            if problem is not None:
                raise Invalid(problem, where=f"{requirement.subsystem} {term.field}")
    for below in requirement.below:
        _check(below)


def _vertex(subsystem: str, at: At) -> Requirement:
    """One vertex of the tree form: its fields, and with `with` the vertices below it."""
    terms: list[Term] = []
    below: tuple[Requirement, ...] = ()
    for field, value in at.keys().items():
        if field == "with":
            below = tuple(_vertex(subsystem, item) for item in value.one_or_more())
        elif not field:
            raise value.refuse("the field has no name")
        elif isinstance(value.value, dict):
            tests = value.keys(_TESTS)
            if not tests:
                raise value.refuse("expected match, min, max or runs")
            if "match" in tests:
                terms.append(Equals(field, tests["match"].scalar()))
            terms.extend(_range_and_runs(field, tests))
        else:
            terms.append(Equals(field, value.scalar()))
    if not terms and not below:
        raise at.refuse(f"a requirement on {subsystem[:40]!r} says nothing: give a field with its value")
    return Requirement(subsystem, tuple(terms), below)

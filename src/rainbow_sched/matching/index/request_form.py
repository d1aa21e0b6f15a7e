"""The form of requests that the index can answer: slots of plain leaves inside one type of host.

`read_forms` omits the parts of a request that a form cannot express and marks the form as inexact. The
index then only excludes clusters that cannot fit, and the exact matcher decides on the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Level, Request, Requirement


@dataclass(frozen=True, slots=True)
class Need:
    """The units of a leaf type in one slot; `scale` is bytes per unit, 0 if the unit is not one of bytes."""

    type: str
    count: int
    unit: str
    scale: int
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForm:
    """One top-level resource: `count` slots of `needs`, each inside one `host` (empty: anywhere in the cluster)."""

    host: str
    count: int
    needs: tuple[Need, ...]
    shared: bool = False
    exclusive: bool = False
    abstract: bool = False
    requires: tuple[Requirement, ...] = ()
    wrappers: tuple[tuple[str, bool], ...] = ()  # levels of count 1 around the host: (type, abstract)
    exact: bool = True  # False: the request asks for more


@dataclass(frozen=True, slots=True)
class RequestForms:
    """A form for each top-level resource, and what is required of the whole cluster."""

    forms: tuple[RequestForm, ...]
    exact: bool  # True: the forms express the whole request
    requires: tuple[Requirement, ...] = ()


def read_forms(request: Request) -> RequestForms:
    """Return the forms of a request."""
    forms = tuple(_form(level) for group in request.groups for level in group.levels)
    plain = not (request.hosts or request.not_hosts or request.properties)
    exact = plain and all(form.exact for form in forms)
    if exact and len(forms) > 1:
        types = [need.type for form in forms for need in form.needs]
        exact = len(types) == len(set(types)) and not any(
            form.exclusive or any(need.exclusive for need in form.needs) for form in forms
        )
    return RequestForms(forms, exact, request.requires)


def _need(level: Level, count: int) -> Need:
    scale = (factor(level.unit) or 0) if level.unit else 0
    return Need(level.type, count, level.unit, scale, level.exclusive)


def _form(level: Level) -> RequestForm:
    wrappers: list[tuple[str, bool]] = []
    exact = True
    top = level
    while len(level.inside) == 1 and level.inside[0].inside and level.count.min == 1 and not level.exclusive:
        exact = exact and not level.requires
        wrappers.append((level.type, level.abstract and not level.requires))
        level = level.inside[0]
    if not level.inside:
        return RequestForm(host="", count=1, needs=(_need(level, level.count.min),), exact=not level.requires)
    if any(inner.inside for inner in level.inside):
        return _deep(top)
    leaves: dict[str, Level] = {}  # the first of each type: never more than the request asks for
    for inner in level.inside:
        leaves.setdefault(inner.type, inner)
    return RequestForm(
        host=level.type,
        count=level.count.min,
        needs=tuple(_need(leaf, leaf.count.min) for leaf in leaves.values()),
        shared=level.shared,
        exclusive=level.exclusive,
        abstract=level.abstract and not level.requires,
        requires=level.requires,
        wrappers=tuple(wrappers),
        exact=exact and len(leaves) == len(level.inside) and not any(inner.requires for inner in level.inside),
    )


def _deep(top: Level) -> RequestForm:
    """Return the total per type of nested levels, which the cluster must have at least."""
    totals: dict[str, Need] = {}
    for level, count in top.walk_counted():
        if level.inside:
            continue
        need = _need(level, count)
        earlier = totals.get(need.type)
        if earlier is None:
            totals[need.type] = need
        elif earlier.unit == need.unit:
            totals[need.type] = Need(need.type, earlier.count + need.count, need.unit, need.scale, False)
    return RequestForm(host="", count=1, needs=tuple(totals.values()), exact=False)

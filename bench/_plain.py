"""A simple matcher as a baseline: a depth-first search over the objects of every cluster, for every request."""

from __future__ import annotations

from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.model.quantities import factor
from rainbow_sched.model.request import Equals, Request, Requirement, Term, Within
from rainbow_sched.model.versions import equal, within


class Thing:
    """A vertex as an object."""

    __slots__ = ("facts", "kids", "size", "type", "unit")

    def __init__(self, type: str, size: int, unit: str) -> None:
        self.type, self.size, self.unit = type, size, unit
        self.kids: list[Thing] = []
        self.facts: list[tuple[str, dict[str, object]]] = []


def objects(backend: MemoryBackend) -> dict[str, Thing]:
    """Return every cluster as objects; subsystem vertices are listed at all vertices below their own, too."""
    found: dict[str, Thing] = {}
    for name in backend.clusters():
        fold = backend._states[name].fold  # the bench looks inside to build the same fleet again
        graph = fold.graph
        things = [Thing(*each) for each in zip(graph.types, graph.sizes, graph.units, strict=True)]
        for i, parent in enumerate(graph.parents):
            if parent >= 0:
                things[parent].kids.append(things[i])
        at = graph.positions()
        for subsystem in fold.subsystems:
            for vertex, _, hung in subsystem.items():
                for id in hung:
                    things[at[id]].facts.append((subsystem.name, dict(vertex.metadata)))
        for i, parent in enumerate(graph.parents):
            if parent >= 0 and things[parent].facts:
                things[i].facts = things[parent].facts + things[i].facts
        found[name] = things[0]
    return found


def meets(thing: Thing, requirement: Requirement) -> bool:
    """Return True if one fact of the vertex satisfies all terms."""
    return any(
        name == requirement.subsystem and all(holds(fields, term) for term in requirement.terms)
        for name, fields in thing.facts
    )


def holds(fields: dict[str, object], term: Term) -> bool:
    """Return True if a fact satisfies one term."""
    value = fields.get(term.field)
    if value is None:
        return False
    if isinstance(term, Within):
        return isinstance(value, (str, int, float)) and within(value, term.min, term.max)
    return isinstance(term, Equals) and equal(value, term.value)


def amount(thing: Thing, type: str, scale: int) -> int:
    """Return the units of a type inside a vertex."""
    own = 0
    if thing.type == type:
        own = thing.size * ((factor(thing.unit) or 1) if scale else 1)
    return own + sum(amount(kid, type, scale) for kid in thing.kids)


def slots(thing: Thing, request: Request) -> int:
    """Return the slots inside a vertex, for a request with one level of hosts."""
    level = request.groups[0].levels[0]
    if thing.type == level.type:
        if not all(meets(thing, requirement) for requirement in level.requires):
            return 0
        room = min(
            amount(thing, inner.type, factor(inner.unit) or 0 if inner.unit else 0)
            // (inner.count.min * ((factor(inner.unit) or 1) if inner.unit else 1))
            for inner in level.inside
        )
        return room if level.shared else min(room, 1)
    return sum(slots(kid, request) for kid in thing.kids)


def match(fleet: dict[str, Thing], request: Request) -> tuple[str, ...]:
    """Return the clusters that fit."""
    return tuple(name for name, root in fleet.items() if slots(root, request) >= request.groups[0].levels[0].count.min)

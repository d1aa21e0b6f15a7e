"""Reads from the property graph what matching needs: the vertices that a request can use, and where it is met."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rainbow.graphs import cypher_queries as queries
from rainbow.graphs.cypher_engine import Engine, Row
from rainbow.graphs.cypher_values import sort_key
from rainbow.graphs.cypher_write import listed
from rainbow.graphs.memory_runs import runs
from rainbow.model.graph import NOTHING, Graph, Subsystem, Vertex
from rainbow.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term, Within
from rainbow.model.versions import is_number, texts

_MET = "met"  # the subsystem that carries the database's answers into the count of slots


@dataclass(frozen=True, slots=True)
class Rows:
    """Vertices of one cluster as the database gave them, with what is down, used and placed, by vertex number."""

    graph: Graph
    down: frozenset[int]
    used: Mapping[int, int]
    placed: Mapping[str, Mapping[int, int]]
    positions: Mapping[int, int]  # from the number in the whole graph to the number here


def whole(engine: Engine, cluster: str) -> Rows:
    """The cluster with every vertex."""
    return _rows(engine, cluster, engine.run(queries.WHOLE, cluster=cluster))


def usable(engine: Engine, cluster: str, request: Request) -> Rows:
    """Only what the request can use, and what tells whether that is free."""
    types = sorted({level.type for level in request.walk()})
    leaves = sorted({level.type for level in request.walk() if not level.inside})
    values: dict[str, Any] = {f"type{k}": listed([type]) for k, type in enumerate(types)}
    values |= {f"leaf{k}": listed([type]) for k, type in enumerate(leaves)}
    query = queries.selected(len(types), len(leaves))
    found = {row[0]: row for row in engine.run(query, cluster=cluster, types=types, **values)}
    touched = [row[0] for row in engine.run(queries.TOUCHED, cluster=cluster)]
    if touched:
        found |= {row[0]: row for row in engine.run(queries.around(), cluster=cluster, touched=touched)}
    return _rows(engine, cluster, [found[position] for position in sorted(found)])


def _rows(engine: Engine, cluster: str, rows: list[Row]) -> Rows:
    at = {row[0]: k for k, row in enumerate(rows)}
    graph = Graph(
        ids=[row[2] for row in rows],
        names=[row[3] for row in rows],
        types=[row[4] for row in rows],
        parents=array("i", (at[row[1]] if row[1] >= 0 else -1 for row in rows)),
        sizes=array("q", (row[5] for row in rows)),
        units=[row[6] for row in rows],
        metadata={k: json.loads(row[7]) for k, row in enumerate(rows) if row[7]},
    )
    placed: dict[str, dict[int, int]] = {job: {} for (job,) in engine.run(queries.ALL_JOBS, cluster=cluster)}
    for job, position, units in engine.run(queries.TAKEN, cluster=cluster):
        placed[job][at[position]] = units
    return Rows(
        graph=graph,
        down=frozenset(k for k, row in enumerate(rows) if row[8]),
        used={k: row[9] for k, row in enumerate(rows) if row[9]},
        placed=placed,
        positions=at,
    )


def subsystems(engine: Engine, cluster: str) -> list[Subsystem]:
    """Every subsystem of the cluster, whole."""
    hosts: dict[tuple[str, int], list[str]] = {}
    for name, position, id in engine.run(queries.HANGING, cluster=cluster):
        hosts.setdefault((name, position), []).append(id)
    found: dict[str, list[tuple[Vertex, int]]] = {}
    for name, _, parent, id, label, type, size, unit, metadata in engine.run(queries.FACTS, cluster=cluster):
        about = json.loads(metadata) if metadata else NOTHING
        vertex = Vertex(id=id, type=type, name=label, size=size, unit=unit, metadata=about)
        found.setdefault(name, []).append((vertex, parent))
    return [
        Subsystem(
            name=name,
            vertices=tuple(vertex for vertex, _ in held),
            parents=tuple(parent for _, parent in held),
            hangs_on=tuple(tuple(hosts.get((name, i), ())) for i in range(len(held))),
        )
        for name, held in found.items()
    ]


class Judge:
    """Lets the database judge a request's requirements, and rewrites the request to speak of the verdicts."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._engine = engine
        self._asked: list[Requirement] = []
        self.request = replace(
            request,
            groups=tuple(
                replace(group, levels=tuple(self._level(level) for level in group.levels)) for group in request.groups
            ),
            requires=self._numbered(request.requires),
        )

    def _level(self, level: Level) -> Level:
        inside = tuple(self._level(inner) for inner in level.inside)
        return replace(level, requires=self._numbered(level.requires), inside=inside)

    def _numbered(self, requires: Iterable[Requirement]) -> tuple[Requirement, ...]:
        found = []
        for requirement in requires:
            found.append(Requirement(_MET, (Equals("number", len(self._asked)),)))
            self._asked.append(requirement)
        return tuple(found)

    def verdicts(self, cluster: str, rows: Rows) -> list[Subsystem]:
        """One vertex for each requirement, hung on all vertices where the database says that it is met."""
        if not self._asked:
            return []
        hangs = [self._met_at(cluster, requirement, rows) for requirement in self._asked]
        number = range(len(self._asked))
        vertices = tuple(Vertex(id=f"{_MET} {k}", type=_MET, metadata={"number": k}) for k in number)
        return [Subsystem(name=_MET, vertices=vertices, parents=(-1,) * len(vertices), hangs_on=tuple(hangs))]

    def _met_at(self, cluster: str, requirement: Requirement, rows: Rows) -> tuple[str, ...]:
        facts = self._facts(cluster, requirement)
        if not facts:
            return ()
        spans = self._engine.run(queries.ANCHORS, cluster=cluster, subsystem=requirement.subsystem, facts=facts)
        if not spans:
            return ()
        found = self._engine.run(queries.SPOKEN_FOR, cluster=cluster, spans=[{"lo": lo, "hi": hi} for lo, hi in spans])
        return tuple(rows.graph.ids[rows.positions[at]] for (at,) in found if at in rows.positions)

    def _facts(self, cluster: str, requirement: Requirement) -> list[int]:
        """The places, in their subsystem, of the vertices that meet the requirement by themselves."""
        name = requirement.subsystem
        values: dict[str, Any] = {}
        conditions = [self._condition(cluster, name, term, k, values) for k, term in enumerate(requirement.terms)]
        query = queries.meeting(conditions) if conditions else queries.ALL_FACTS
        found = {row[0] for row in self._engine.run(query, cluster=cluster, subsystem=name, **values)}
        for below in requirement.below:
            inner = self._facts(cluster, below) if below.subsystem == name else []
            if not inner:
                return []
            rows = self._engine.run(queries.ABOVE_FACTS, cluster=cluster, subsystem=name, inner=inner)
            found &= {row[0] for row in rows}
        return sorted(found)

    def _condition(self, cluster: str, subsystem: str, term: Term, k: int, values: dict[str, Any]) -> str:
        x = f"x{k}"
        values[f"field{k}"] = term.field
        if isinstance(term, Runs):
            rows = self._engine.run(queries.PLAIN_VALUES, cluster=cluster, subsystem=subsystem, field=term.field)
            values[f"texts{k}"] = [value for (value,) in rows if runs(value, term.target)] or ["\0"]
            return f"{x}.name = $field{k} AND {x}.plain AND {x}.one IN $texts{k}"
        if isinstance(term, Equals):
            values[f"texts{k}"] = list(texts(term.value))
            return f"{x}.name = $field{k} AND ({x}.one IN $texts{k} OR {x}.two IN $texts{k})"
        return f"{x}.name = $field{k}" + _range(term, k, values)


def _range(term: Within, k: int, values: dict[str, Any]) -> str:
    """Two numbers compare as numbers, everything else as versions."""
    text = ""
    for side, sign, bound in (("min", ">=", term.min), ("max", "<=", term.max)):
        if bound is None:
            continue
        text += " AND " + _bound(f"x{k}", sign, f"{side}{k}", bound, values)
    return text


def _bound(x: str, sign: str, key: str, bound: Scalar, values: dict[str, Any]) -> str:
    values[f"{key}v"] = sort_key(texts(bound)[0])
    as_version = f"{x}.version {sign} ${key}v"
    if not is_number(bound):
        return as_version
    values[f"{key}n"] = float(bound)
    return f"(({x}.numeric AND {x}.number {sign} ${key}n) OR (NOT {x}.numeric AND {as_version}))"

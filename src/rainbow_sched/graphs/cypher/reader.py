"""Read the usable vertices of a request, and the vertices that meet its requirements, from the property graph."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rainbow_sched.graphs.cypher import queries
from rainbow_sched.graphs.cypher.engine import CypherEngine, Row
from rainbow_sched.graphs.cypher.writer import listed, sort_key
from rainbow_sched.model.graph import NOTHING, Graph, Subsystem, Vertex
from rainbow_sched.model.request import Equals, Level, Request, Requirement, Runs, Scalar, Term, Within
from rainbow_sched.model.request_summary import RequestSummary
from rainbow_sched.model.versions import is_number, is_version, runs, texts

_MET = "met"  # the subsystem that carries the database's answers into the count of slots


Place: TypeAlias = tuple[str, int]  # a cluster, and a place in the walk through it or through its subsystem


@dataclass(frozen=True, slots=True)
class GraphRows:
    """Vertices of one cluster from the database, with marks, used units and placed jobs by vertex number."""

    graph: Graph
    down: frozenset[int]
    used: Mapping[int, int]
    placed: Mapping[str, Mapping[int, int]]


def whole(engine: CypherEngine, cluster: str) -> GraphRows:
    """Read all vertices of a cluster."""
    return _by_cluster(engine, [cluster], engine.run(queries.WHOLE, clusters=[cluster]))[cluster]


def usable(engine: CypherEngine, clusters: list[str], request: Request) -> dict[str, GraphRows]:
    """Read from each cluster the vertices that the request can use, and those that decide if they are free."""
    summary = RequestSummary.of(request)
    types, leaves = sorted(summary.totals), sorted(summary.leaf_totals)
    values: dict[str, Any] = {f"type{k}": listed([type]) for k, type in enumerate(types)}
    values |= {f"leaf{k}": listed([type]) for k, type in enumerate(leaves)}
    query = queries.selected(len(types), len(leaves))
    rows = engine.run(query, clusters=clusters, types=types, **values)
    touched = _places(engine.run(queries.TOUCHED, clusters=clusters))
    if touched:
        rows += engine.run(queries.AROUND, touched=touched)
    return _by_cluster(engine, clusters, rows)


def _by_cluster(engine: CypherEngine, clusters: list[str], rows: list[Row]) -> dict[str, GraphRows]:
    held: dict[str, dict[int, Row]] = {cluster: {} for cluster in clusters}
    for cluster, *row in rows:
        held[cluster][row[0]] = row
    placed: dict[str, dict[str, dict[int, int]]] = {cluster: {} for cluster in clusters}
    for cluster, job in engine.run(queries.JOBS, clusters=clusters):
        placed[cluster][job] = {}
    for cluster, job, position, units in engine.run(queries.TAKEN, clusters=clusters):
        placed[cluster][job][position] = units
    return {
        cluster: _rows([held[cluster][position] for position in sorted(held[cluster])], placed[cluster])
        for cluster in clusters
    }


def _rows(rows: list[Row], placed: Mapping[str, Mapping[int, int]]) -> GraphRows:
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
    return GraphRows(
        graph=graph,
        down=frozenset(k for k, row in enumerate(rows) if row[8]),
        used={k: row[9] for k, row in enumerate(rows) if row[9]},
        placed={job: {at[position]: units for position, units in taken.items()} for job, taken in placed.items()},
    )


def _places(rows: Iterable[Row | Place]) -> list[dict[str, Any]]:
    return [{"cluster": cluster, "lo": lo} for cluster, lo in rows]


def subsystems(engine: CypherEngine, cluster: str) -> list[Subsystem]:
    """Read all subsystems of a cluster."""
    hosts: dict[tuple[str, int], list[str]] = {}
    for name, position, id in engine.run(queries.HANGING, clusters=[cluster]):
        hosts.setdefault((name, position), []).append(id)
    found: dict[str, list[tuple[Vertex, int]]] = {}
    for name, _, parent, id, label, type, size, unit, metadata in engine.run(queries.FACTS, clusters=[cluster]):
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


class RequirementEvaluator:
    """Evaluate a request's requirements in the database, and rewrite the request to refer to the results."""

    def __init__(self, engine: CypherEngine, request: Request) -> None:
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

    def verdicts(self, found: Mapping[str, GraphRows]) -> dict[str, list[Subsystem]]:
        """Return for each cluster a subsystem with one vertex per requirement, attached where it is met."""
        if not self._asked:
            return {cluster: [] for cluster in found}
        met = [self._met_at(list(found), requirement) for requirement in self._asked]
        vertices = tuple(Vertex(id=f"{_MET} {k}", type=_MET, metadata={"number": k}) for k in range(len(met)))
        parents = (-1,) * len(met)
        verdicts = {}
        for cluster, rows in found.items():
            known = set(rows.graph.ids)
            hangs = tuple(tuple(id for id in places.get(cluster, ()) if id in known) for places in met)
            verdicts[cluster] = [Subsystem(name=_MET, vertices=vertices, parents=parents, hangs_on=hangs)]
        return verdicts

    def _met_at(self, clusters: list[str], requirement: Requirement) -> dict[str, list[str]]:
        """Return by cluster the ids of all vertices that meet the requirement."""
        facts = self._facts(clusters, requirement)
        if not facts:
            return {}
        spans = self._engine.run(queries.ANCHORS, subsystem=requirement.subsystem, facts=_places(sorted(facts)))
        if not spans:
            return {}
        found: dict[str, list[str]] = {}
        for cluster, id in self._engine.run(queries.SPOKEN_FOR, spans=_joined(spans)):
            found.setdefault(cluster, []).append(id)
        return found

    def _facts(self, clusters: list[str], requirement: Requirement) -> set[Place]:
        """Return the vertices of the subsystem that meet the requirement."""
        name = requirement.subsystem
        values: dict[str, Any] = {}
        conditions = [self._condition(clusters, name, term, k, values) for k, term in enumerate(requirement.terms)]
        query = queries.meeting(conditions) if conditions else queries.ALL_FACTS
        found = {(row[0], row[1]) for row in self._engine.run(query, clusters=clusters, subsystem=name, **values)}
        for below in requirement.below:
            inner = self._facts(clusters, below) if below.subsystem == name else set()
            if not inner:
                return set()
            rows = self._engine.run(queries.ABOVE_FACTS, subsystem=name, inner=_places(sorted(inner)))
            found &= {(row[0], row[1]) for row in rows}
        return found

    def _condition(self, clusters: list[str], subsystem: str, term: Term, k: int, values: dict[str, Any]) -> str:
        x = f"x{k}"
        values[f"field{k}"] = term.field
        if isinstance(term, Runs):
            rows = self._engine.run(queries.PLAIN_VALUES, clusters=clusters, subsystem=subsystem, field=term.field)
            values[f"texts{k}"] = [value for (value,) in rows if runs(value, term.target)] or ["\0"]
            return f"{x}.name = $field{k} AND {x}.plain AND {x}.one IN $texts{k}"
        if isinstance(term, Equals):
            values[f"texts{k}"] = list(texts(term.value))
            return f"{x}.name = $field{k} AND ({x}.one IN $texts{k} OR {x}.two IN $texts{k})"
        return f"{x}.name = $field{k}" + _range(term, k, values)


def _joined(spans: list[Row]) -> list[dict[str, Any]]:
    """Join neighbouring depth-first spans."""
    joined: list[dict[str, Any]] = []
    for cluster, lo, hi in sorted(spans):
        last = joined[-1] if joined else None
        if last and last["cluster"] == cluster and lo <= last["hi"]:
            last["hi"] = max(hi, last["hi"])
        else:
            joined.append({"cluster": cluster, "lo": lo, "hi": hi})
    return joined


def _range(term: Within, k: int, values: dict[str, Any]) -> str:
    """Return the condition of a range: two numbers compare as numbers, everything else as versions."""
    text = ""
    for side, sign, bound in (("min", ">=", term.min), ("max", "<=", term.max)):
        if bound is None:
            continue
        text += " AND " + _bound(f"x{k}", sign, f"{side}{k}", bound, values)
    return text


def _bound(x: str, sign: str, key: str, bound: Scalar, values: dict[str, Any]) -> str:
    as_version = "false"
    if is_version(bound):
        values[f"{key}v"] = sort_key(texts(bound)[0])
        as_version = f"({x}.version <> '' AND {x}.version {sign} ${key}v)"
    if not is_number(bound):
        return as_version
    values[f"{key}n"] = float(bound)
    return f"(({x}.numeric AND {x}.number {sign} ${key}n) OR (NOT {x}.numeric AND {as_version}))"

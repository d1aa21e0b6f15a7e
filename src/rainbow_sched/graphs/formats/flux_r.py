"""Read Flux's resource set R (RFC 20), as `flux resource R` prints it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

from rainbow_sched.graphs.formats.compact import build_graph
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, first_duplicate
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import expand, parse_idset


def from_flux_r(document: Mapping[str, object], limits: GraphLimits = DEFAULT) -> Graph:
    """Read the graph of an R: the JGF under `scheduling` if present, else nodes by rank with cores and gpus."""
    if document.get("version") != 1:
        raise Invalid(f"an R of version 1 is read, not {document.get('version')!r}", where="version")
    scheduling = document.get("scheduling")
    if isinstance(scheduling, Mapping) and "graph" in scheduling:
        from rainbow_sched.graphs.formats.jgf.reader import read_graph  # needs the server's libraries; plain R does not

        return read_graph(json.dumps(scheduling), limits)
    execution = document.get("execution")
    if not isinstance(execution, Mapping):
        raise Invalid('an R needs {"execution": {"R_lite": [...]}}', where="execution")
    ranks = _ranks(execution, limits)
    names = _names(execution, len(ranks), limits)
    properties = _properties(execution, limits)
    # A run of ranks with the same children and properties is one entry with a count.
    rows = [(rank, children, tuple(properties.get(rank, ()))) for rank, children in ranks]
    entries = []
    at = 0
    for (_, held), run in itertools.groupby(rows, key=lambda row: (id(row[1]), row[2])):
        many = len(list(run))
        entry: dict[str, object] = {"type": "node", "count": many, "name": names[at : at + many]}
        entry["with"] = rows[at][1]
        if held:
            entry["properties"] = list(held)
        entries.append(entry)
        at += many
    return build_graph({"type": "cluster", "name": ["cluster0"], "with": entries}, "R", limits)


def _ranks(execution: Mapping[str, object], limits: GraphLimits) -> list[tuple[int, list[dict[str, object]]]]:
    """Return the ranks in order, as in `nodelist`, with the entries inside each."""
    lite = execution.get("R_lite")
    if not isinstance(lite, list) or not lite:
        raise Invalid('R_lite is a list of {"rank", "children"}', where="execution.R_lite")
    found: list[tuple[int, list[dict[str, object]]]] = []
    room = limits.vertices  # each entry takes from it, so that many small entries cannot ask for too much either
    for i, part in enumerate(lite):
        where = f"execution.R_lite[{i}]"
        if not isinstance(part, Mapping):
            raise Invalid('an entry is an object {"rank", "children"}', where=where)
        ranks = parse_idset(part.get("rank"), limit=room, where=f"{where}.rank")
        inside, many = _children(part.get("children", {}), room, where)
        room -= len(ranks) * (1 + many)
        if room < 0:
            raise TooLarge(f"a graph has at most {limits.vertices} vertices", where=where)
        found += [(rank, inside) for rank in ranks]
    twice = first_duplicate([rank for rank, _ in found])
    if twice is not None:
        raise Invalid(f"rank {twice} is listed twice", where="execution.R_lite")
    return sorted(found, key=lambda held: held[0])


def _children(raw: object, room: int, where: str) -> tuple[list[dict[str, object]], int]:
    """Return the entries inside one node, and their number of vertices."""
    if not isinstance(raw, Mapping):
        raise Invalid('children are an object such as {"core": "0-47", "gpu": "0-3"}', where=where)
    entries: list[dict[str, object]] = []
    many = 0
    for type, numbers in raw.items():
        ids = parse_idset(numbers, limit=room, where=f"{where}.children.{type}")
        twice = first_duplicate(ids)
        if twice is not None:
            raise Invalid(f"{type} {twice} is listed twice", where=f"{where}.children")
        entries.append({"type": type, "count": len(ids), "name": [f"{type}{number}" for number in ids]})
        many += len(ids)
    return entries, many


def _names(execution: Mapping[str, object], many: int, limits: GraphLimits) -> list[str]:
    listed = execution.get("nodelist", [])
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise Invalid('nodelist is a list such as ["n[0-63]"]', where="execution.nodelist")
    names: list[str] = []
    for text in listed:
        names += expand(text, limit=limits.vertices, where="execution.nodelist")
        if len(names) > limits.vertices:
            raise TooLarge(f"a graph has at most {limits.vertices} vertices", where="execution.nodelist")
    if not names:
        return [f"node{number}" for number in range(many)]
    if len(names) != many:
        raise Invalid(f"nodelist names {len(names)} nodes, R_lite has {many} ranks", where="execution.nodelist")
    return names


def _properties(execution: Mapping[str, object], limits: GraphLimits) -> dict[int, list[str]]:
    raw = execution.get("properties", {})
    if not isinstance(raw, Mapping):
        raise Invalid('properties are an object such as {"a100": "0-3"}', where="execution.properties")
    found: dict[int, list[str]] = {}
    for name, ranks in sorted(raw.items()):
        for rank in parse_idset(ranks, limit=limits.vertices, where=f"execution.properties.{name}"):
            found.setdefault(rank, []).append(name)
    return found

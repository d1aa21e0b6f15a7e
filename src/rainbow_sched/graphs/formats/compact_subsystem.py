"""Read the compact form of subsystems: vertices that attach to a list of names, and to each other.

{"rainbow": "subsystem/1",
 "with": [{"type": "package", "on": "n[0-31]", "metadata": {"name": "lammps", "version": "2024.1"}}]}
"""

from __future__ import annotations

from collections.abc import Mapping

from rainbow_sched.graphs.formats.compact_items import metadata_of, refuse_unknown, text_of
from rainbow_sched.graphs.formats.jgf.values import DEFAULT, GraphLimits, build_subsystem, checked_size
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH, Graph, Subsystem, Vertex
from rainbow_sched.model.hostlist import expand

SUBSYSTEM_FORM = "subsystem/1"
_SEVERAL = -1
_NOWHERE = "\0"  # parent of vertices with `"on": []`, which attach to nothing
_KEYS = frozenset(("type", "id", "name", "on", "size", "unit", "metadata", "properties", "with"))


def from_compact_subsystem(
    name: str, graph: Graph, document: Mapping[str, object], limits: GraphLimits = DEFAULT
) -> Subsystem:
    """Build the subsystem; `on` lists ids or names of `graph`; a top vertex without it attaches to the root."""
    where = f"subsystem {name!r}"
    if document.get("rainbow") != SUBSYSTEM_FORM:
        raise Invalid(f'a compact subsystem says "rainbow": "{SUBSYSTEM_FORM}", not {document.get("rainbow")!r}')
    refuse_unknown(document, frozenset(("rainbow", "name", "with")), where)
    builder = _SubsystemBuilder(name, graph, limits)
    builder.add(document, where, parent="", depth=0)
    return build_subsystem(name, builder.places.by_id, builder.vertices, builder.edges, nowhere=_NOWHERE)


class _SubsystemBuilder:
    """Collect vertices and edges from the top; missing ids are numbered."""

    def __init__(self, name: str, graph: Graph, limits: GraphLimits) -> None:
        self.places = _Places(graph, limits)
        self.vertices: list[Vertex] = []
        self.edges: list[tuple[str, str]] = []
        self._name = name
        self._root = graph.ids[0]
        self._limits = limits

    def add(self, holder: Mapping[str, object], where: str, *, parent: str, depth: int) -> None:
        """Add all entries inside `holder`."""
        entries = holder.get("with", [])
        if not isinstance(entries, list):
            raise Invalid("with is a list of entries", where=where)
        if entries and depth >= MAX_GRAPH_DEPTH:
            raise TooLarge(f"a subsystem is at most {MAX_GRAPH_DEPTH} levels deep", where=where)
        for i, raw in enumerate(entries):
            self._add_one(raw, f"{where}.with[{i}]", parent, depth)

    def _add_one(self, raw: object, where: str, parent: str, depth: int) -> None:
        if not isinstance(raw, dict):
            raise Invalid('an entry is an object {"type", "on", "metadata", "with"}', where=where)
        refuse_unknown(raw, _KEYS, where)
        id = text_of(raw, "id", where) or f"{self._name}{len(self.vertices) + 1}"
        where = f"{where} ({id})"
        self.vertices.append(
            Vertex(
                id=id,
                type=text_of(raw, "type", where) or "resource",
                name=text_of(raw, "name", where),
                size=checked_size(raw.get("size"), where),
                unit=text_of(raw, "unit", where),
                metadata=metadata_of(raw, where),
            )
        )
        above = [parent] if parent else []
        if "on" in raw or not parent:
            above += self.places.find(raw.get("on", [self._root]), where)
        self.edges += [(source, id) for source in above or [_NOWHERE]]
        if len(self.vertices) > self._limits.vertices or len(self.edges) > self._limits.edges:
            raise TooLarge(f"a subsystem has at most {self._limits.vertices} vertices", where=where)
        self.add(raw, where, parent=id, depth=depth + 1)


class _Places:
    """Find dominant vertices by id, else by a unique name."""

    def __init__(self, graph: Graph, limits: GraphLimits) -> None:
        self._ids = graph.ids
        self._limit = limits.vertices
        self.by_id = graph.positions()
        self._by_name: dict[str, int] = {}
        for i, name in enumerate(graph.names):
            self._by_name[name] = _SEVERAL if name in self._by_name else i

    def find(self, on: object, where: str) -> list[str]:
        """Return the ids of the vertices that `on` lists."""
        if isinstance(on, str):
            wanted = expand(on, limit=self._limit, where=where)
        elif isinstance(on, list) and all(isinstance(name, str) for name in on):
            wanted = list(on)
        else:
            raise Invalid('on is a text such as "n[0-31]" or a list of texts', where=where)
        return [self._one(name, where) for name in wanted]

    def _one(self, name: str, where: str) -> str:
        if name in self.by_id:
            return name
        at = self._by_name.get(name)
        if at is None:
            raise Invalid(f"hangs on {name!r}, which is not in the cluster's graph", where=where)
        if at == _SEVERAL:
            raise Invalid(f"hangs on {name!r}, a name that several vertices have; give their ids", where=where)
        return self._ids[at]

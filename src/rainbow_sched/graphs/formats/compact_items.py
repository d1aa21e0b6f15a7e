"""Read and check the entries of a compact graph, such as `{"type": "node", "count": 64, "with": [...]}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.graphs.formats.jgf.values import STRUCTURAL, GraphLimits, check_value, checked_size
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_GRAPH_DEPTH
from rainbow_sched.model.hostlist import expand

_KEYS = frozenset(("type", "count", "name", "id", "size", "unit", "metadata", "properties", "with"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """`count` equal vertices in each parent, with equal contents."""

    type: str
    where: str
    count: int = 1
    size: int = 1
    unit: str = ""
    metadata: Mapping[str, object]
    names: tuple[str, ...] | None = None  # None: type and number
    ids: tuple[str, ...] | None = None  # None: numbered depth first
    inside: tuple[Item, ...] = ()
    total: int = 1  # vertices in one copy: itself and all inside


class _Budget:
    """The remaining number of names and ids: a graph has at most two per vertex."""

    def __init__(self, limits: GraphLimits) -> None:
        self.left = 2 * limits.vertices

    def listed(self, raw: Mapping[str, object], key: str, where: str) -> tuple[str, ...] | None:
        """Return the names under `key`, or None if it is absent."""
        value = raw.get(key)
        if value is None:
            return None
        if value == "":
            return ("",)
        check_value(value, where)
        if isinstance(value, str):
            found = tuple(expand(value, limit=self.left, where=where))
        elif isinstance(value, list) and value and all(isinstance(name, str) for name in value):
            found = tuple(value)
        else:
            raise Invalid(f'{key} is a text such as "n[0-63]" or a list of texts', where=where)
        self.left -= len(found)
        return found


def read_item(raw: object, where: str, limits: GraphLimits) -> Item:
    """Read one entry and everything inside; `where` is its path, for errors."""
    return _read(raw, where, limits, _Budget(limits), 0)


def _read(raw: object, where: str, limits: GraphLimits, budget: _Budget, depth: int) -> Item:
    if depth >= MAX_GRAPH_DEPTH:
        raise TooLarge(f"a graph is at most {MAX_GRAPH_DEPTH} levels deep", where=where)
    if not isinstance(raw, Mapping):
        raise Invalid('an entry is an object {"type", "count", "with"}', where=where)
    refuse_unknown(raw, _KEYS, where)
    type = text_of(raw, "type", where)
    if not type:
        raise Invalid("a vertex needs a type", where=where)
    where = f"{where} ({type})"
    count = raw.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= limits.vertices:
        raise Invalid(f"count is a whole number from 1 to {limits.vertices}, not {str(count)[:40]}", where=where)
    entries = raw.get("with", [])
    if not isinstance(entries, list):
        raise Invalid("with is a list of entries", where=where)
    inside = tuple(_read(entry, f"{where}.with[{i}]", limits, budget, depth + 1) for i, entry in enumerate(entries))
    total = 1 + sum(item.count * item.total for item in inside)
    if count * total > limits.vertices:
        raise TooLarge(f"a graph has at most {limits.vertices} vertices", where=where)
    return Item(
        type=type,
        where=where,
        count=count,
        size=checked_size(raw.get("size"), where),
        unit=text_of(raw, "unit", where),
        metadata=metadata_of(raw, where),
        names=budget.listed(raw, "name", where),
        ids=budget.listed(raw, "id", where),
        inside=inside,
        total=total,
    )


def refuse_unknown(raw: Mapping[str, object], known: frozenset[str], where: str) -> None:
    """Raise `Invalid` for an unknown key."""
    for key in raw:
        if key not in known:
            raise Invalid(f"unknown key {key!r}; known are {', '.join(sorted(known))}", where=where)


def text_of(raw: Mapping[str, object], key: str, where: str) -> str:
    """Return the text under `key`, or an empty text if it is absent."""
    value = raw.get(key, "")
    if not isinstance(value, str):
        raise Invalid(f"{key} is a text, not {value!r}", where=where)
    check_value(value, where)
    return value


def metadata_of(raw: Mapping[str, object], where: str) -> dict[str, object]:
    """Return the metadata, with `properties` as one of its keys."""
    given = raw.get("metadata", {})
    if not isinstance(given, dict):
        raise Invalid("metadata is an object", where=where)
    taken = STRUCTURAL.intersection(given)
    if taken:
        raise Invalid(f"{min(taken)} stands beside metadata, not inside it", where=where)
    metadata = dict(given)
    if "properties" in raw:
        metadata["properties"] = raw["properties"]
    check_value(metadata, where)
    return metadata

"""Read the nodes of a JGF document into columns: ids, names, types, sizes, units and metadata."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec

from rainbow_sched.graphs.formats.jgf.parts import Section, pieces
from rainbow_sched.graphs.formats.jgf.values import STRUCTURAL, GraphLimits, check_value, checked_size
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.graph import MAX_SIZE

DEFAULT_TYPE = "resource"
_INTERNED = 1 << 16  # distinct names kept to share one string; beyond that names are unique anyway


class _Paths(msgspec.Struct, gc=False):
    """Not decoded: the edges define the containment."""


class _Metadata(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    type: str = DEFAULT_TYPE
    basename: str = ""
    name: str = ""
    id: int | str | None = None
    uniq_id: int | str | None = None
    rank: int | None = None
    exclusive: bool | None = None
    unit: str = ""
    size: int = 1
    paths: _Paths | None = None


class _Node(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    metadata: _Metadata
    id: str = ""
    label: str = ""


_nodes_by_id = msgspec.json.Decoder(dict[str, _Node])
_node_list = msgspec.json.Decoder(list[_Node])
_node_id, _node_metadata, _node_paths = attrgetter("id"), attrgetter("metadata"), attrgetter("metadata.paths")
_name_of, _type_of, _unit_of, _size = attrgetter("name"), attrgetter("type"), attrgetter("unit"), attrgetter("size")


@dataclass(slots=True)
class Columns:
    """Vertices in the order of the text; `Graph` orders them by the tree."""

    ids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    units: list[str] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("q"))
    metadata: dict[int, Mapping[str, object]] = field(default_factory=dict)
    interned: dict[str, str] = field(default_factory=dict)

    def share(self, texts: Sequence[str]) -> list[str]:
        """Return the same texts, with equal ones as one object while there are few."""
        known = self.interned
        return list(map(known.get if len(known) > _INTERNED else known.setdefault, texts, texts))


def read_vertices(section: Section, limits: GraphLimits) -> Columns:
    """Read and check all vertices; errors name the vertex."""
    columns = Columns()

    def usual(piece: bytes) -> None:
        _add_usual(columns, piece, keyed=section.keyed)

    def any_kind(piece: bytes) -> None:
        for id, node in _any_nodes(piece, keyed=section.keyed):
            _add_one(columns, id, node)

    for _ in pieces(section, usual, any_kind):
        if len(columns.ids) > limits.vertices:
            raise TooLarge(f"a graph has at most {limits.vertices} vertices")
    return columns


def _add_usual(columns: Columns, piece: bytes, *, keyed: bool) -> None:
    """Add nodes with structural metadata only, the common case: decoded typed and all at once."""
    if keyed:
        by_id = _nodes_by_id.decode(piece)
        ids, nodes = list(by_id), list(by_id.values())
        # A duplicate key leaves one entry. Each node is one brace, its metadata another, paths a third; more means an
        # overwritten node, or metadata that this decoder does not read.
        braces = 1 + 3 * len(nodes) - list(map(_node_paths, nodes)).count(None)
        if piece.count(b"{") != braces:
            raise msgspec.ValidationError
    else:
        nodes = _node_list.decode(piece)
        ids = list(map(_node_id, nodes))
    found = list(map(_node_metadata, nodes))
    sizes = array("q", map(_size, found))
    names, types, units = list(map(_name_of, found)), list(map(_type_of, found)), list(map(_unit_of, found))
    if not all(names):
        names = [m.name or _numbered_name(m.basename or m.type, m.id) for m in found]
    if sizes and (min(sizes) < 1 or max(sizes) > MAX_SIZE):
        raise msgspec.ValidationError
    if not all(ids) or not all(names) or not all(types):
        raise msgspec.ValidationError
    columns.ids += ids
    columns.names += columns.share(names)
    columns.types += columns.share(types)
    columns.units += columns.share(units)
    columns.sizes += sizes


def _numbered_name(base: str, number: object) -> str:
    return "" if number is None or number == "" else f"{base}{number}"


def _any_nodes(piece: bytes, *, keyed: bool) -> Iterable[tuple[object, object]]:
    if not keyed:
        for node in json.loads(piece):
            yield (node.get("id") if isinstance(node, dict) else None), node
        return
    outermost: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal outermost  # objects close from the inside out: the last one is the dict of nodes, with equal keys
        outermost = pairs
        return dict(pairs)

    json.loads(piece, object_pairs_hook=keep)
    yield from outermost


def _add_one(columns: Columns, given: object, node: object) -> None:
    id = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if not isinstance(id, str) or not id:
        raise Invalid(f"vertex number {len(columns.ids)} needs an id, a text that is not empty")
    where = f"vertex {id!r}"
    if not isinstance(node, dict):
        raise Invalid("a node is an object with metadata", where=where)
    metadata = node.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise Invalid("metadata is an object", where=where)
    check_value(id, where)
    check_value({key: value for key, value in metadata.items() if key != "size"}, where)
    type = _text(metadata, "type", where) or DEFAULT_TYPE
    free = {key: value for key, value in metadata.items() if key not in STRUCTURAL}
    if free.get("properties") in (None, {}, []):  # flux-sched writes an empty one on every vertex
        free.pop("properties", None)
    if free:
        columns.metadata[len(columns.ids)] = free
    columns.ids.append(id)
    columns.names += columns.share([_name(metadata, type, where) or _label(node, id)])
    columns.types += columns.share([type])
    columns.units += columns.share([_text(metadata, "unit", where)])
    columns.sizes.append(checked_size(metadata.get("size"), where))


def _name(metadata: Mapping[str, object], type: str, where: str) -> str:
    name = _text(metadata, "name", where)
    number = metadata.get("id")
    if not name and isinstance(number, (int, str)):
        name = _numbered_name(_text(metadata, "basename", where) or type, number)
    paths = metadata.get("paths")
    if not name and isinstance(paths, dict) and isinstance(paths.get("containment"), str):
        name = paths["containment"].rpartition("/")[2]
    return name


def _label(node: Mapping[str, object], id: str) -> str:
    label = node.get("label")
    if not isinstance(label, str) or label == id:
        return ""
    check_value(label, f"vertex {id!r}")
    return label


def _text(metadata: Mapping[str, object], key: str, where: str) -> str:
    value = metadata.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Invalid(f"{key} is a text, not {value!r}", where=where)
    return value

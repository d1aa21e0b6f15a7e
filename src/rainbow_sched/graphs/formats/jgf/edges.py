"""Read the `contains` edges of a JGF document; other relations are ignored."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter

import msgspec

from rainbow_sched.graphs.formats.jgf.parts import Section, pieces
from rainbow_sched.graphs.formats.jgf.values import GraphLimits
from rainbow_sched.model.errors import Invalid, TooLarge


class _Contains(msgspec.Struct, gc=False, tag_field="relation", tag="contains"):
    source: str
    target: str


class _In(msgspec.Struct, gc=False, tag_field="relation", tag="in"):
    """The reverse of a `contains` edge; its ends are not decoded."""


_source, _target = attrgetter("source"), attrgetter("target")
_edges = msgspec.json.Decoder(list[_Contains | _In])


def read_edges(section: Section, limits: GraphLimits, take: Callable[[list[str], list[str]], None]) -> None:
    """Pass all `contains` edges, in the order of the text, to `take` as lists of parents and children."""
    seen = 0

    def usual(piece: bytes) -> None:
        nonlocal seen
        edges = _edges.decode(piece)
        kept = [edge for edge in edges if type(edge) is _Contains]
        seen += len(edges)
        take(list(map(_source, kept)), list(map(_target, kept)))

    def any_kind(piece: bytes) -> None:
        nonlocal seen
        edges = json.loads(piece)
        ends = [_ends(edge, seen + i) for i, edge in enumerate(edges) if _relation(edge, seen + i) == "contains"]
        seen += len(edges)
        take([source for source, _ in ends], [target for _, target in ends])

    for _ in pieces(section, usual, any_kind):
        if seen > limits.edges:
            raise TooLarge(f"a graph of up to {limits.vertices} vertices has at most {limits.edges} edges")


def _relation(edge: object, number: int) -> object:
    """Return the relation as RFC 40, the prototype or old flux-sched write it; the default is `contains`."""
    if not isinstance(edge, dict):
        raise Invalid('an edge is an object {"source", "target", "relation"}', where=f"edge {number}")
    if "relation" in edge:
        return edge["relation"]
    metadata = edge.get("metadata")
    if not isinstance(metadata, dict):
        return "contains"
    if "relation" in metadata:
        return metadata["relation"]
    named = metadata.get("name")
    if isinstance(named, dict):
        return named.get("containment")
    return "contains" if metadata.get("subsystem", "containment") == "containment" else None


def _ends(edge: dict[str, object], number: int) -> tuple[str, str]:
    return _end(edge, "source", number), _end(edge, "target", number)


def _end(edge: dict[str, object], key: str, number: int) -> str:
    value = edge.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise Invalid(f"{key} is the id of a vertex, not {value!r}", where=f"edge {number}")
    return value

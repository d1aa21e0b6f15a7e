"""Convert slots into levels: the count moves to the contents of the slot or to the node around it."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.jobspecs.reading.counts import times
from rainbow_sched.model.request import Count, Level

# A slot below one of these types is inside one node.
WITHIN_A_NODE = frozenset({"node", "socket", "package", "numa", "numanode", "core"})


def spread_slot(count: Count, inner: tuple[Level, ...], *, label: str, in_node: bool) -> tuple[Level, ...]:
    """Return the levels for `count` slots of `inner`.

    A slot must lie inside one node, because a task runs there; a shared node is added if no level
    above or inside is a node.
    """
    if in_node or any(level.type == "node" for top in inner for level in top.walk()):
        return tuple(replace(top, count=times(count, top.count), label=top.label or label) for top in inner)
    return (Level(type="node", count=count, shared=True, abstract=True, inside=inner, label=label),)

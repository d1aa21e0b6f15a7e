"""How a `slot` disappears: its count goes into what it holds, or into the node that it must lie in."""

from __future__ import annotations

from dataclasses import replace

from rainbow_sched.jobspecs.reading.counts import times
from rainbow_sched.model.request import Count, Level

# A slot below one of these already lies inside one node.
WITHIN_A_NODE = frozenset({"node", "socket", "package", "numa", "numanode", "core"})


def spread_slot(count: Count, inner: tuple[Level, ...], *, label: str, in_node: bool) -> tuple[Level, ...]:
    """The levels that stand for `count` slots of `inner`.

    A slot is where a task runs, so it lies in one node: if nothing above or inside says
    which, a shared node hosts it.
    """
    if in_node or any(level.type == "node" for top in inner for level in top.walk()):
        return tuple(replace(top, count=times(count, top.count), label=top.label or label) for top in inner)
    return (Level(type="node", count=count, shared=True, abstract=True, inside=inner, label=label),)

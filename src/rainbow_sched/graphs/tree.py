"""Draw a graph's containment tree with equal vertices on one line: `node n[0-63] x64: 64 core, 4 gpu (a100)`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hostlist import collapse

_MAX_NAMES = 60  # characters; a longer list of names is cut
_SHOWN_KEYS = ("model", "vendor", "speed")  # metadata shown beside an amount


@dataclass(frozen=True, slots=True)
class Folded:
    """Equal vertices in equal parents."""

    members: tuple[int, ...]  # in the graph's order, over all parents
    count: int  # in each parent
    inside: tuple[Folded, ...]

    @property
    def first(self) -> int:
        return self.members[0]


def draw(graph: Graph) -> str:
    """Return the tree as text, root first."""
    return "\n".join(_lines(graph, fold(graph), "", ""))


def _lines(graph: Graph, folded: Folded, lead: str, follow: str) -> Iterator[str]:
    held = [part for part in folded.inside if not part.inside]
    deeper = [part for part in folded.inside if part.inside]
    yield lead + _title(graph, folded) + _contents(graph, held)
    for part in deeper:
        last = part is deeper[-1]
        yield from _lines(graph, part, follow + ("└─ " if last else "├─ "), follow + ("   " if last else "│  "))


def _title(graph: Graph, folded: Folded) -> str:
    i = folded.first
    names = _names([graph.names[m] or graph.ids[m] for m in folded.members], graph.types[i], folded.count)
    each = " each" if len(folded.members) > folded.count else ""
    many = f" x{folded.count}{each}" if folded.count > 1 else ""
    size = graph.sizes[i]
    amount = f" {size} {graph.units[i]}".rstrip() if size > 1 else ""
    return f"{graph.types[i]}{names}{many}{amount}{_brackets(graph, i)}"


def _names(names: list[str], type: str, count: int) -> str:
    """Return the compressed names, or nothing if they only number the type within its parent."""
    if len(names) > count and names[:count] == [f"{type}{k}" for k in range(count)] and names[count] in names[:count]:
        return ""
    names = sorted(names, key=_natural)
    text = collapse(names) or ",".join(names)
    return f" {text if len(text) <= _MAX_NAMES else text[: _MAX_NAMES - 3] + '...'}"


def _natural(name: str) -> tuple[str, int, str]:
    """Return a sort key that puts n2 before n10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0), name


def _brackets(graph: Graph, i: int) -> str:
    about = graph.metadata.get(i, {})
    shown = [str(about[key]) for key in _SHOWN_KEYS if isinstance(about.get(key), str | int | float)]
    properties = about.get("properties")
    if isinstance(properties, Mapping | list):
        shown += map(str, properties)
    return f" ({', '.join(shown)})" if shown else ""


def _contents(graph: Graph, parts: list[Folded]) -> str:
    """Return the summed contents, such as `: 64 core, 4 gpu (a100), 256 GB memory`."""
    amounts: dict[tuple[str, str, str], int] = {}
    for part in parts:
        i = part.first
        key = (graph.types[i], graph.units[i], _brackets(graph, i))
        amounts[key] = amounts.get(key, 0) + graph.sizes[i] * part.count
    texts = [f"{amount}{f' {unit}' if unit else ''} {type}{about}" for (type, unit, about), amount in amounts.items()]
    return f": {', '.join(texts)}" if texts else ""


def fold(graph: Graph) -> Folded:
    below = graph.children()
    kinds, counts = _kinds(graph, below)

    def entry(members: list[int], count: int) -> Folded:
        # Members of one kind have children of the same kinds, so the k-th count of each belongs to one entry.
        inside: list[tuple[list[int], int]] = [([], many) for _, many in counts[kinds[members[0]]]]
        for member in members:
            children, at = sorted(below[member], key=lambda child: (kinds[child], child)), 0
            for entries, many in inside:
                entries += children[at : at + many]
                at += many
        inside.sort(key=lambda part: part[0][0])
        return Folded(tuple(members), count, tuple(entry(entries, many) for entries, many in inside))

    return entry([0], 1)


def _kinds(graph: Graph, below: list[list[int]]) -> tuple[list[int], list[tuple[tuple[int, int], ...]]]:
    """Return for each vertex the number of its kind, and for each kind its children's kinds with their counts."""
    numbers: dict[tuple[object, ...], int] = {}
    counts: list[tuple[tuple[int, int], ...]] = []
    kinds = [0] * len(graph)
    for i in range(len(graph) - 1, -1, -1):
        inside = tuple(sorted(Counter(kinds[child] for child in below[i]).items()))
        metadata = json.dumps(graph.metadata[i], sort_keys=True) if i in graph.metadata else ""
        key = (graph.types[i], graph.sizes[i], graph.units[i], metadata, inside)
        kinds[i] = numbers.setdefault(key, len(counts))
        if kinds[i] == len(counts):
            counts.append(inside)
    return kinds, counts

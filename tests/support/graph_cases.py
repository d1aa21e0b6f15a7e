"""Small graphs for tests: one by hand, and a hypothesis strategy for any."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from rainbow_sched.graphs.formats.compact import from_compact
from rainbow_sched.model.graph import Graph, Subsystem, Vertex


def a_gpu_cluster(nodes: int = 4, cores: int = 8) -> Graph:
    """One rack of equal nodes with cores, two gpus and memory."""
    node = {
        "type": "node",
        "count": nodes,
        "name": f"n[0-{nodes - 1}]" if nodes > 1 else "n0",
        "properties": ["fast"],
        "with": [
            {"type": "core", "count": cores},
            {"type": "gpu", "count": 2, "metadata": {"model": "a100"}},
            {"type": "memory", "size": 256, "unit": "GB"},
        ],
    }
    return from_compact({"rainbow": "graph/1", "cluster": "perl", "with": [{"type": "rack", "with": [node]}]})


def in_shape(jgf: str, shape: str) -> str:
    """Return a JGF text with its nodes as a `dict` (as written) or as a `list`, the form of RFC 40."""
    document = json.loads(jgf)
    if shape == "list":
        document["graph"]["nodes"] = [{"id": id, **node} for id, node in document["graph"]["nodes"].items()]
    return json.dumps(document, separators=(",", ":"))


# Letters that mean something to JSON, to lists of names, to paths and to UTF-8, and a few that do not.
words = st.text(st.sampled_from('ab01"\\{}[],:/-~ \n\x7fé𐍈'), min_size=1, max_size=5)
names = st.one_of(words, st.builds("{}{}".format, st.sampled_from(["n", "gpu", ""]), st.integers(0, 20)), st.just(""))
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), words
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=5,
)
metadata = st.dictionaries(
    words.filter(lambda key: key not in ("type", "name", "id", "size", "unit", "rank", "paths")), values, max_size=2
)


@st.composite
def vertices(draw: st.DrawFn, id: str) -> Vertex:
    """One vertex of this id with anything else."""
    return Vertex(
        id=id,
        type=draw(st.sampled_from(["cluster", "rack", "node", "core", "gpu", "memory"])),
        name=draw(names),
        size=draw(st.sampled_from([1, 1, 1, 2, 2**40])),
        unit=draw(st.sampled_from(["", "", "GB"])),
        metadata=draw(st.one_of(st.just({}), metadata)),
    )


@st.composite
def parts(draw: st.DrawFn, max_size: int = 8) -> tuple[list[Vertex], list[tuple[str, str]]]:
    """Vertices in any order and the edges of a tree over them."""
    ids = draw(st.lists(st.one_of(words, st.integers(0, 99).map(str)), min_size=1, max_size=max_size, unique=True))
    edges = [(ids[draw(st.integers(0, i - 1))], ids[i]) for i in range(1, len(ids))]
    found = [draw(vertices(id)) for id in ids]
    return draw(st.permutations(found)), draw(st.permutations(edges))


graphs = parts().map(lambda found: Graph.build(*found))


@st.composite
def subsystems(draw: st.DrawFn, graph: Graph) -> Subsystem:
    """A subsystem of `graph` whose vertices hang on it and on each other."""
    ids = [f"{word}~" for word in draw(st.lists(words, min_size=1, max_size=6, unique=True))]
    ids = [id for id in ids if id not in graph.ids] or ["own~~"]
    edges: list[tuple[str, str]] = []
    for i, id in enumerate(ids):
        hosts = draw(st.lists(st.sampled_from(list(graph.ids)), min_size=0 if i else 1, max_size=3, unique=True))
        edges += [(host, id) for host in hosts]
        if i and (not hosts or draw(st.booleans())):
            edges.append((ids[draw(st.integers(0, i - 1))], id))
    return Subsystem.build("soft", graph.positions(), [draw(vertices(id)) for id in ids], edges)

"""Small graphs in the prototype's JGF, as its tools write them."""

from __future__ import annotations


def dict_jgf(nodes: int = 2, cores: int = 4, *, name: str = "keebler") -> dict[str, object]:
    """cluster "0" > rack "1" > nodes > socket > cores, nodes as a dict, edges in pairs."""
    vertices: dict[str, dict[str, object]] = {}
    edges: list[dict[str, object]] = []
    counts: dict[str, int] = {}

    def add(kind: str, parent: str | None, path: str) -> tuple[str, str]:
        id, index = str(len(vertices)), counts.get(kind, 0)
        counts[kind] = index + 1
        here = f"{path}/{name if kind == 'cluster' else kind}{index}"
        vertices[id] = {
            "label": id,
            "metadata": {
                "type": kind,
                "basename": kind,
                "name": f"{kind}{index}",
                "id": index,
                "uniq_id": int(id),
                "rank": -1,
                "exclusive": False,
                "unit": "",
                "size": 1,
                "paths": {"containment": here},
            },
        }
        if parent is not None:
            edges.append({"source": parent, "target": id, "relation": "contains", "metadata": {}})
            edges.append({"source": id, "target": parent, "relation": "in", "metadata": {}})
        return id, here

    root, path = add("cluster", None, "")
    rack, rack_path = add("rack", root, path)
    for _ in range(nodes):
        node, node_path = add("node", rack, rack_path)
        socket, socket_path = add("socket", node, node_path)
        for _ in range(cores):
            add("core", socket, socket_path)
    return {"graph": {"directed": True, "nodes": vertices, "edges": edges}}


def subsystem_jgf(name: str, hangs_on: list[str], metadata: dict[str, object]) -> dict[str, object]:
    """A root hung on the cluster's root, and one vertex hung on each of `hangs_on`."""
    vertices: dict[str, dict[str, object]] = {f"{name}0": {"metadata": {"type": name, "basename": name, "size": 1}}}
    edges: list[dict[str, object]] = [{"source": "0", "target": f"{name}0", "relation": "contains"}]
    for index, above in enumerate(hangs_on, start=1):
        id = f"{name}{index}"
        vertices[id] = {"metadata": {"basename": name, "size": 1, **metadata}}
        edges.append({"source": above, "target": id, "relation": "contains"})
        edges.append({"source": id, "target": above, "relation": "in"})
    return {"graph": {"directed": True, "nodes": vertices, "edges": edges}}

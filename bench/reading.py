"""Benchmark of reading a large JGF graph: time and peak memory of our reader and of `json.loads` with a walk.

Each reader runs in its own process on the same file, to measure its own peak. The default is 1,000
nodes; `--full` is 10,000 nodes and 1.03 million vertices.
"""

from __future__ import annotations

import importlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SOCKETS, CORES, GPUS = 2, 48, 2  # cores and gpus per socket


def _names(nodes: int) -> Iterator[tuple[str, str, int]]:
    """Yield parent path, type and number of each vertex below the root, from the top."""
    for n in range(nodes):
        yield "/big0", "node", n
        for s in range(SOCKETS):
            yield f"/big0/node{n}", "socket", s
            for kind, many in (("core", CORES), ("gpu", GPUS)):
                for i in range(many):
                    yield f"/big0/node{n}/socket{s}", kind, s * many + i


def write_jgf(path: Path, nodes: int) -> int:
    """Write the dict form with `contains` and `in` edges; return the number of vertices."""
    numbers = {"/big0": 0}
    edges = path.with_suffix(".edges")
    with path.open("w") as out, edges.open("w") as links:
        out.write('{"graph":{"directed":true,"nodes":{"0":' + _node(0, "cluster", "big", 0, "/big0"))
        for uniq, (above, kind, number) in enumerate(_names(nodes), start=1):
            where = f"{above}/{kind}{number}"
            if kind in ("node", "socket"):
                numbers[where] = uniq
            out.write(f',"{uniq}":' + _node(uniq, kind, kind, number, where))
            parent = numbers[above]
            links.write(
                f'{"," if uniq > 1 else ""}{{"source":"{parent}","target":"{uniq}",'
                f'"relation":"contains","metadata":{{}}}}'
                f',{{"source":"{uniq}","target":"{parent}","relation":"in","metadata":{{}}}}'
            )
        out.write('},"edges":[')
    with path.open("a") as out, edges.open() as links:
        while part := links.read(1 << 20):
            out.write(part)
        out.write("]}}")
    edges.unlink()
    return uniq + 1


def _node(uniq: int, kind: str, base: str, number: int, where: str) -> str:
    return (
        f'{{"label":"{uniq}","metadata":{{"basename":"{base}","exclusive":false,"id":{number},"name":"{base}{number}",'
        f'"paths":{{"containment":"{where}"}},"rank":-1,"size":1,"type":"{kind}","uniq_id":{uniq},"unit":""}}}}'
    )


def plain_walk(text: bytes) -> int:
    """Read the graph as a simple program does: objects, lists of children, a walk that counts cores per node."""
    graph = json.loads(text)["graph"]
    below: dict[str, list[str]] = {}
    for edge in graph["edges"]:
        if edge["relation"] == "contains":
            below.setdefault(edge["source"], []).append(edge["target"])
    counts: dict[str, dict[str, int]] = {}
    stack = [("0", "")]
    while stack:
        id, node = stack.pop()
        kind = graph["nodes"][id]["metadata"]["type"]
        node = id if kind == "node" else node
        held = counts.setdefault(node, {})
        held[kind] = held.get(kind, 0) + graph["nodes"][id]["metadata"]["size"]
        stack.extend((child, node) for child in below.get(id, ()))
    return len(graph["nodes"])


def ours(text: bytes) -> int:
    """Read the graph with the server's reader and all its checks."""
    from rainbow_sched.graphs.formats.jgf.reader import read_graph  # imported only in the process that is measured

    return len(read_graph(text))


READERS: dict[str, Callable[[bytes], int]] = {"plain": plain_walk, "ours": ours}


def _measure(reader: str, file: str) -> None:
    """Print seconds, bytes of peak memory beyond the text, and vertices; runs in the child process."""
    if reader == "ours":
        importlib.import_module("rainbow_sched.graphs.formats.jgf.reader")  # exclude the import from the time
    text = Path(file).read_bytes()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    vertices = READERS[reader](text)
    seconds = time.process_time() - start
    print(json.dumps([seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, vertices]))


def _run(reader: str, file: Path) -> tuple[float, int, int]:
    command = [sys.executable, "-m", "bench.reading", "--measure", reader, str(file)]
    seconds, peak, vertices = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, peak, vertices


def main(arguments: list[str]) -> None:
    """Print one table: CPU seconds, added peak memory, and the ratios."""
    if arguments[:1] == ["--measure"]:
        _measure(arguments[1], arguments[2])
        return
    nodes, rounds = (10_000, 1) if "--full" in arguments else (1_000, 3)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "big.json"
        vertices = write_jgf(file, nodes)
        print(f"JGF of {nodes:,} nodes, {vertices:,} vertices, {file.stat().st_size / 1e6:.0f} MB")
        runs = {reader: [_run(reader, file) for _ in range(rounds)] for reader in READERS}
    seconds = {reader: statistics.median(run[0] for run in found) for reader, found in runs.items()}
    peaks = {reader: statistics.median(run[1] for run in found) for reader, found in runs.items()}
    for reader in READERS:
        print(f"  {reader:<6} {seconds[reader]:7.2f} s CPU  {peaks[reader] / 1e6:8.0f} MB added")
    faster, smaller = (values["plain"] / values["ours"] for values in (seconds, peaks))
    print(f"  time 1/{faster:.1f}, memory 1/{smaller:.1f} (goal: 1/4 of both)")
    if nodes < 10_000:
        print("  run with --full for a million vertices, where the garbage collector weighs on the plain reader most")


if __name__ == "__main__":
    main(sys.argv[1:])

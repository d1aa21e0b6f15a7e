"""Benchmark of discovery: parse the resources of a large cluster, compared with splitting the same text into words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from rainbow_sched.discovery.flux import flux_graph
from rainbow_sched.discovery.slurm import parse_nodes, slurm_graph, slurm_subsystems, used_by_others

Made = TypeVar("Made")
NODES = 10_000
_LINE = (
    "NodeName=n{i} Arch=x86_64 CoresPerSocket=32 CPUAlloc=64 CPUEfctv=128 CPUTot=128 ActiveFeatures=avx2,ib "
    "Gres=gpu:a100:4(S:0-1) GresUsed=gpu:a100:2(IDX:0-1) OS=Linux 6.1.0 #1 SMP RealMemory=256000 AllocMem=1000 "
    "Sockets=2 State=MIXED ThreadsPerCore=2 Partitions=main BootTime=2026-11-15T16:49:52"
)


def main(arguments: list[str]) -> None:
    """Print seconds and the ratio to the plain split."""
    text = "\n".join(_LINE.format(i=i) for i in range(NODES))
    plain, _ = _timed(lambda: [line.split() for line in text.splitlines()])
    print(f"{NODES} Slurm nodes, {len(text) >> 20} MiB of text; split into words {plain:.2f} s")
    parsed, nodes = _timed(lambda: parse_nodes(text))
    racks = {f"n{i}": f"s{i // 32}" for i in range(NODES)}
    built, graph = _timed(lambda: slurm_graph("big", nodes, racks))
    hung, _ = _timed(lambda: slurm_subsystems(nodes, ()))
    used, _ = _timed(lambda: used_by_others(graph, nodes, ()))
    for name, seconds in (("read", parsed), ("graph", built), ("subsystems", hung), ("units in use", used)):
        print(f"  {name:<13} {seconds:6.2f} s  {seconds / plain:6.1f} x")
    document = {
        "version": 1,
        "execution": {
            "R_lite": [{"rank": f"0-{NODES - 1}", "children": {"core": "0-63", "gpu": "0-3"}}],
            "nodelist": [f"n[0-{NODES - 1}]"],
        },
    }
    flux, graph = _timed(lambda: flux_graph("big", document))
    print(f"  R of Flux     {flux:6.2f} s  {flux / plain:6.1f} x  ({len(graph)} vertices)")


def _timed(work: Callable[[], Made]) -> tuple[float, Made]:
    begun = time.perf_counter()
    made = work()
    return time.perf_counter() - begun, made

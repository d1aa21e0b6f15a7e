"""Matching requests against fleets: absolute medians for the reader, and ratios against a plain search in the same run.

`python -m bench matching [--quick]`. Every request of a series differs from the one before, so that
no kept answer helps, unless a line says "repeated". Each line is the median and the 99th percentile
of single calls; on a busy machine the latter shows the machine.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from random import Random
from statistics import median

from bench import _plain
from bench._fleets import a_fleet, fill, requests
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.graphs.registry import open_backend
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.request import Count, Group, Level, Request

FLEETS = ((10, 100), (100, 1_000), (1_000, 100), (1_000, 1_000), (10_000, 100))


def timed(call: Callable[[Request], object], asked: Iterable[Request]) -> tuple[float, float]:
    """Median and 99th percentile in microseconds."""
    took = []
    for request in asked:
        start = time.perf_counter()
        call(request)
        took.append((time.perf_counter() - start) * 1e6)
    took.sort()
    return median(took), took[int(len(took) * 0.99)]


def say(what: str, value: tuple[float, float] | float, note: str = "") -> None:
    """One line of the report."""
    numbers = f"{value:10.1f}" if isinstance(value, float) else f"{value[0]:10.1f} {value[1]:10.1f}"
    print(f"  {what:38} {numbers:>21}  {note}")


def memory(clusters: int, nodes: int, *, busy: bool) -> float:
    """Bytes per node that a fleet holds, measured in a process of its own; equal graphs are shared."""
    program = (
        "import gc, os, sys; from pathlib import Path; from bench import _fleets, matching\n"
        "held = lambda: int(Path('/proc/self/statm').read_text().split()[1]) * os.sysconf('SC_PAGE_SIZE')\n"
        "clusters, nodes, busy = map(int, sys.argv[1:]); _fleets.a_fleet(1, 2); gc.collect(); before = held()\n"
        "backend = _fleets.a_fleet(clusters, nodes)\n"
        "if busy: matching.churn(backend, clusters, nodes)\n"
        "gc.collect(); print((held() - before) / (clusters * nodes))"
    )
    arguments = [sys.executable, "-c", program, str(clusters), str(nodes), str(int(busy))]
    return float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def churn(backend: MemoryBackend, clusters: int, nodes: int) -> None:
    """Use some cores of every node, a different number each."""
    rng = Random(3)
    for i in range(clusters):
        backend.use(f"c{i:05}", {f"n{n}-core": rng.randint(1, 31) for n in range(nodes)})


def updates(backend: MemoryBackend, clusters: int, nodes: int) -> tuple[float, float]:
    """One node down, then up again, with its rows moved."""
    rng = Random(4)
    took = []
    for _ in range(400):
        name, node = f"c{rng.randrange(clusters):05}", f"n{rng.randrange(nodes)}"
        for mark in (Mark.DOWN, Mark.UP):
            start = time.perf_counter()
            backend.mark(name, {node: mark})
            took.append((time.perf_counter() - start) * 1e6)
    took.sort()
    return median(took), took[int(len(took) * 0.99)]


def measure(clusters: int, nodes: int, *, quick: bool, smaller: MemoryBackend | None = None) -> MemoryBackend:
    """All figures of one fleet, and beside a smaller one, if given; gives the fleet."""
    start = time.perf_counter()
    backend = a_fleet(clusters, nodes)
    built = time.perf_counter() - start
    gc.collect()
    gc.freeze()  # what a server does once it has loaded its fleet
    print(f"\n{clusters} clusters x {nodes} nodes   (us: median, 99%)")
    say(
        "build, us per node",
        built * 1e6 / (clusters * nodes),
        "a graph is read once and shared by the clusters that have the same",
    )
    series = requests(Random(2), nodes)
    count = 100 if quick else 400
    different = timed(backend.match, islice(series, count))
    say("all different", different)
    one = next(series)
    backend.match(one)
    repeated = timed(backend.match, [one] * count)
    say("repeated", repeated, f"{different[0] / repeated[0]:.0f}x less")
    if smaller:
        say("times 1,000 x 100, in turns", side_by_side(smaller, backend))
    say("one node down or up", updates(backend, clusters, nodes))
    if clusters * nodes == 100_000 and nodes == 1_000:
        against_plain(backend, series, different[0], quick=quick)
    if nodes == 1_000 and not quick:
        churn(backend, clusters, nodes)
        say("all different, every node in use", timed(backend.match, islice(series, count)))
        say("one node down or up, every node in use", updates(backend, clusters, nodes))
    if clusters == 1_000 and nodes == 100:
        say("explain one request to all, ms", explaining(backend, islice(series, 20)), "median, worst of 20")
        say("place a small job, release it", placing(backend))
    return backend


def explaining(backend: MemoryBackend, asked: Iterable[Request]) -> tuple[float, float]:
    """Median and worst in milliseconds."""
    took = []
    for request in asked:
        start = time.perf_counter()
        backend.explain(request)
        took.append((time.perf_counter() - start) * 1e3)
    return median(took), max(took)


def placing(backend: MemoryBackend) -> tuple[float, float]:
    """Medians in microseconds."""
    job = Level(type="node", count=Count(1), shared=True, inside=(Level(type="core", count=Count(2)),))
    request = Request(groups=(Group(levels=(job,)),))
    placed, released = [], []
    for i in range(400):
        start = time.perf_counter()
        backend.place("c00000", f"job{i}", request)
        placed.append((time.perf_counter() - start) * 1e6)
    for i in range(400):
        start = time.perf_counter()
        backend.release("c00000", f"job{i}")
        released.append((time.perf_counter() - start) * 1e6)
    return median(placed), median(released)


def side_by_side(small: MemoryBackend, large: MemoryBackend, count: int = 400) -> float:
    """How many times longer the large fleet takes for the same requests, asked in turns."""
    took: tuple[list[float], list[float]] = ([], [])
    for request in islice(requests(Random(5), 100), count):
        for backend, mine in zip((small, large), took, strict=True):
            start = time.perf_counter()
            backend.match(request)
            mine.append(time.perf_counter() - start)
    return median(took[1]) / median(took[0])


def against_plain(backend: MemoryBackend, series: Iterable[Request], ours: float, *, quick: bool) -> None:
    """The same requests by a plain search over objects, and whether it gives the same answers."""
    fleet = _plain.objects(backend)
    asked = list(islice(series, 2 if quick else 5))
    plain = timed(lambda request: _plain.match(fleet, request), asked)
    same = all(_plain.match(fleet, request) == backend.match(request).ever for request in asked)
    say("plain search over objects", plain, f"{plain[0] / ours:.0f}x ours; answers {'agree' if same else 'DIFFER'}")


def against_cypher(clusters: int = 10, nodes: int = 20) -> None:
    """The same fleet and requests in the embedded property-graph database."""
    ours, theirs = a_fleet(clusters, nodes), open_backend("cypher")
    fill(theirs, clusters, nodes)
    asked = list(islice(requests(Random(7), nodes), 20))
    same = all(ours.match(request).ever == theirs.match(request).ever for request in asked)
    mine, other = timed(ours.match, islice(requests(Random(8), nodes), 20)), timed(theirs.match, asked)
    print(f"\n{clusters} x {nodes}, backends side by side")
    say("memory, all different", mine)
    say("cypher, all different", other, f"{other[0] / mine[0]:.0f}x; answers {'agree' if same else 'DIFFER'}")


def main(arguments: list[str]) -> None:
    """Run all fleets."""
    quick = "--quick" in arguments
    smaller = None
    for clusters, nodes in FLEETS[:3] if quick else FLEETS:
        fleet = measure(clusters, nodes, quick=quick, smaller=smaller)
        smaller = fleet if (clusters, nodes) == (1_000, 100) else None
        gc.unfreeze()
    against_cypher()
    if not quick:
        print()
        for busy in (False, True):
            held = memory(200, 1_000, busy=busy)
            print(f"200 x 1,000, {'every node in use' if busy else 'idle'}: {held:.0f} bytes per node")

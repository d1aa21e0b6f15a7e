"""Benchmark of matching: medians, and ratios to a simple search in the same run.

`python -m bench matching [--quick]`. The requests of a series all differ, so that cached answers do
not help, except in lines with "repeated". Each line has the median and the 99th percentile of single
calls; on a busy machine the latter mostly shows the load.
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
from rainbow_sched.graphs.backend import open_backend
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.graph import Mark
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.request import Count, Group, Level, Request

FLEETS = ((10, 100), (100, 1_000), (1_000, 100), (1_000, 1_000), (10_000, 100))


def timed(call: Callable[[Request], object], series: Iterable[Request]) -> tuple[float, float]:
    """Return median and 99th percentile in microseconds."""
    took = []
    for request in series:
        start = time.perf_counter()
        call(request)
        took.append((time.perf_counter() - start) * 1e6)
    took.sort()
    return median(took), took[int(len(took) * 0.99)]


def print_line(what: str, value: tuple[float, float] | float, note: str = "") -> None:
    """Print one line of the report."""
    numbers = f"{value:10.1f}" if isinstance(value, float) else f"{value[0]:10.1f} {value[1]:10.1f}"
    print(f"  {what:38} {numbers:>21}  {note}")


def memory(clusters: int, nodes: int, *, busy: bool) -> float:
    """Return the bytes per node of a fleet, measured in its own process; equal graphs are shared."""
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
    """Time one node going down and up."""
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
    """Print all measurements of one fleet, compared with a smaller one if given, and return the fleet."""
    start = time.perf_counter()
    backend = a_fleet(clusters, nodes)
    built = time.perf_counter() - start
    gc.collect()
    gc.freeze()  # as a server does after it has loaded its fleet
    print(f"\n{clusters} clusters x {nodes} nodes   (us: median, 99%)")
    print_line(
        "build, us per node",
        built * 1e6 / (clusters * nodes),
        "clusters with equal graphs share one",
    )
    series = map(prepare, requests(Random(2), nodes))
    count = 100 if quick else 400
    different = timed(backend.match, islice(series, count))
    print_line("all different", different)
    one = next(series)
    backend.match(one)
    repeated = timed(backend.match, [one] * count)
    print_line("repeated", repeated, f"{different[0] / repeated[0]:.0f}x less")
    if smaller:
        print_line("times 1,000 x 100, in turns", side_by_side(smaller, backend))
    print_line("one node down or up", updates(backend, clusters, nodes))
    if clusters * nodes == 100_000 and nodes == 1_000:
        against_plain(backend, series, different[0], quick=quick)
    if nodes == 1_000 and not quick:
        churn(backend, clusters, nodes)
        print_line("all different, every node in use", timed(backend.match, islice(series, count)))
        print_line("one node down or up, every node in use", updates(backend, clusters, nodes))
    if clusters == 1_000 and nodes == 100:
        print_line("explain one request to all, ms", explaining(backend, islice(series, 20)), "median, worst of 20")
        print_line("place a small job, release it", placing(backend))
    return backend


def explaining(backend: MemoryBackend, series: Iterable[PreparedRequest]) -> tuple[float, float]:
    """Return median and maximum of explanations in milliseconds."""
    took = []
    for request in series:
        start = time.perf_counter()
        backend.explain(request)
        took.append((time.perf_counter() - start) * 1e3)
    return median(took), max(took)


def placing(backend: MemoryBackend) -> tuple[float, float]:
    """Return the medians of placing and releasing a job in microseconds."""
    job = Level(type="node", count=Count(1), shared=True, inside=(Level(type="core", count=Count(2)),))
    request = prepare(Request(groups=(Group(levels=(job,)),)))
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
    """Return the time ratio of the large to the small fleet for the same requests, sent in turns."""
    took: tuple[list[float], list[float]] = ([], [])
    for request in map(prepare, islice(requests(Random(5), 100), count)):
        for backend, mine in zip((small, large), took, strict=True):
            start = time.perf_counter()
            backend.match(request)
            mine.append(time.perf_counter() - start)
    return median(took[1]) / median(took[0])


def against_plain(backend: MemoryBackend, series: Iterable[PreparedRequest], ours: float, *, quick: bool) -> None:
    """Print the time of a simple search for the same requests, and compare the answers."""
    fleet = _plain.objects(backend)
    sample = list(islice(series, 2 if quick else 5))
    plain = timed(lambda request: _plain.match(fleet, request.request), sample)
    same = all(_plain.match(fleet, request.request) == backend.match(request).ever for request in sample)
    print_line(
        "plain search over objects", plain, f"{plain[0] / ours:.0f}x ours; answers {'agree' if same else 'DIFFER'}"
    )


def against_cypher(clusters: int = 10, nodes: int = 20) -> None:
    """Print the time of the embedded property-graph database for the same fleet and requests."""
    ours, theirs = a_fleet(clusters, nodes), open_backend("cypher")
    fill(theirs, clusters, nodes)
    sample = [prepare(request) for request in islice(requests(Random(7), nodes), 20)]
    same = all(ours.match(request).ever == theirs.match(request).ever for request in sample)
    mine, other = timed(ours.match, map(prepare, islice(requests(Random(8), nodes), 20))), timed(theirs.match, sample)
    print(f"\n{clusters} x {nodes}, backends side by side")
    print_line("memory, all different", mine)
    print_line("cypher, all different", other, f"{other[0] / mine[0]:.0f}x; answers {'agree' if same else 'DIFFER'}")


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

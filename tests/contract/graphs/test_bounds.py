"""Ranges over values of every kind: each backend answers as an obvious oracle does."""

from __future__ import annotations

from itertools import product
from random import Random

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.request import Requirement, Scalar, Within
from tests.support.graph_builders import a_graph, a_level, a_request, a_subsystem, slots

WORDS: tuple[Scalar, ...] = ("gcc", "nvme", "", "-1.2", "V3", "v", True, False)


def a_version(rng: Random) -> list[int]:
    return [rng.randrange(12) for _ in range(rng.randint(1, 4))]


def meets(value: list[int] | Scalar, least: list[int] | None, most: list[int] | None) -> bool:
    """Versions are lists of numbers; everything else meets nothing."""
    if not isinstance(value, list):
        return False
    shown, low, high = ([*one, 0, 0, 0, 0][:4] if one is not None else None for one in (value, least, most))
    assert shown is not None
    return (low is None or shown >= low) and (high is None or shown <= high)


def test_every_backend_answers_ranges_as_lists_of_numbers_compare(backend: GraphBackend) -> None:
    rng = Random(8)
    graph = a_graph(nodes=1, cores=1)
    values: dict[str, list[int] | Scalar] = {f"w{i}": word for i, word in enumerate(WORDS)}
    values |= {f"v{i}": a_version(rng) for i in range(40)}
    for name, value in values.items():
        backend.put(name, graph)
        written = rng.choice(["", "v"]) + ".".join(map(str, value)) if isinstance(value, list) else value
        backend.put_subsystem(name, a_subsystem(graph, "soft", {"root": {"value": written}}))
    for _ in range(60):
        least, most = rng.choice([(a_version(rng), None), (None, a_version(rng)), (a_version(rng), a_version(rng))])
        low, high = (None if one is None else ".".join(map(str, one)) for one in (least, most))
        asked = a_request(slots(1, a_level("core", 1), requires=(Requirement("soft", (Within("value", low, high),)),)))
        known = {name for name, value in values.items() if meets(value, least, most)}
        assert set(backend.match(prepare(asked)).ever) == known, (low, high)


VALUES: tuple[Scalar, ...] = ("gcc", True, "-3", "7", "v7.5", 7, 7.5, -3)
BOUNDS: tuple[Scalar | None, ...] = (None, "gcc", False, "-5", "3", "v7", "9", 3, 7, 9, -5, -1)


def is_in_order(low: Scalar | None, high: Scalar | None) -> bool:
    """Whether both are numbers or both are versions, in order; None stands for no bound."""
    if low is None or high is None:
        return True
    if isinstance(low, bool) or isinstance(high, bool) or "gcc" in (low, high):
        return False
    numbers = [float(str(one).removeprefix("v")) for one in (low, high)]
    if isinstance(low, str) or isinstance(high, str):  # then both have to be versions, which are never negative
        return 0 <= numbers[0] <= numbers[1]
    return numbers[0] <= numbers[1]


def test_every_backend_compares_each_kind_of_value_with_each_kind_of_bound(backend: GraphBackend) -> None:
    graph = a_graph(nodes=1, cores=1)
    values = {f"c{i}": value for i, value in enumerate(VALUES)}
    for name, value in values.items():
        backend.put(name, graph)
        backend.put_subsystem(name, a_subsystem(graph, "soft", {"root": {"value": value}}))
    for low, high in product(BOUNDS, BOUNDS):
        if low is None and high is None:
            continue
        asked = a_request(slots(1, a_level("core", 1), requires=(Requirement("soft", (Within("value", low, high),)),)))
        known = {name for name, value in values.items() if is_in_order(low, value) and is_in_order(value, high)}
        assert set(backend.match(prepare(asked)).ever) == known, (low, high)

"""Ranges over values of every kind: each backend answers as an obvious oracle does."""

from __future__ import annotations

from random import Random

from rainbow.graphs.backend import GraphBackend
from rainbow.model.request import Requirement, Scalar, Within
from tests.support.fleets import a_graph, a_level, a_request, a_subsystem, slots

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
        assert set(backend.match(asked).ever) == known, (low, high)

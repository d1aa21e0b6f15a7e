"""Live through many worlds on several cores, and count what came of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from rainbow_sched.simulation.world import Outcome, run

AT_ONCE = 8  # worlds in one errand to a process


@dataclass(slots=True)
class Tally:
    """What a run over many seeds adds up to."""

    worlds: int = 0
    jobs: int = 0
    launches: int = 0
    hours: float = 0.0  # virtual
    broken: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one world."""
        self.worlds += 1
        self.jobs += outcome.jobs
        self.launches += outcome.launches
        self.hours += outcome.seconds / 3600.0
        self.broken += outcome.violation is not None


def outcomes(start: int, seeds: int, processes: int) -> Iterator[Outcome]:
    """The worlds of `seeds` seeds from `start` on, in their order; only broken ones keep their trace."""
    numbers = range(start, start + seeds)
    if processes <= 1:
        yield from map(brief, numbers)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(brief, numbers, chunksize=AT_ONCE)


def brief(seed: int) -> Outcome:
    """One world, without the trace if nothing was broken."""
    outcome = run(seed)
    return outcome if outcome.violation is not None else replace(outcome, trace=())

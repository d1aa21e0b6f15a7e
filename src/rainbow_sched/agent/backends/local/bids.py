"""Bids of the local backend: a simulation of the queue, with durations from limits and a history of past jobs."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rainbow_sched.agent.backends.base import Prices
from rainbow_sched.agent.backends.common.launches import copies
from rainbow_sched.agent.backends.local.machine import Machine, Place, QueuedJob
from rainbow_sched.agent.core.values import Result
from rainbow_sched.model.attempt import AttemptState

MIN_HISTORY = 5  # with fewer jobs the history is ignored
MAX_HISTORY = 500  # newest completed jobs, from which a bid is estimated; bounds the file
MAX_TASKS = 1_024  # of one job; bounds the processes on the machine


@dataclass(frozen=True, slots=True)
class PastRun:
    """A completed job: its limit, if any, and its duration."""

    limit: float | None
    took: float


@dataclass(frozen=True, slots=True)
class RunningJob:
    place: Place
    limit: float | None
    elapsed: float


def impossible(wanted: QueuedJob, machine: Machine) -> str | None:
    """Return why this machine can never run the job, or None."""
    request = wanted.request
    if not request.tasks:
        return "the request has no task"
    if request.image:
        return f"this machine runs no container images ({request.image})"
    if constraint := request.options.get("constraint"):
        return f"this machine has no features, so the constraint {constraint!r} cannot be met"
    tasks = sum(copies(request, task) for task in request.tasks)
    if tasks > MAX_TASKS:
        return f"one machine runs at most {MAX_TASKS} tasks of a job, not {tasks}"
    if any("\0" in word for task in request.tasks for word in task.command):
        return "an argument of the command contains a zero byte"
    return machine.lacks(request, wanted.allowed)


def takes(limit: float | None, q: float, history: Sequence[PastRun], elapsed: float = 0.0) -> float:
    """Estimate a job's total duration at quantile `q`, after it has run for `elapsed`; inf if unknown.

    With a limit, the estimate is the share of their limits that past jobs used; without one, their durations. Only jobs
    that ran at least `elapsed` count. The limit is never exceeded.
    """
    if limit is not None:
        alike = [used for ran in history if ran.limit and (used := ran.took / ran.limit * limit) >= elapsed]
    else:
        alike = [ran.took for ran in history if ran.took >= elapsed]
    if len(alike) < MIN_HISTORY:
        return limit if limit is not None else math.inf
    guess = sorted(alike)[max(0, math.ceil(q * len(alike)) - 1)]  # nearest rank
    return guess if limit is None else min(guess, limit)


def starts_in(
    wanted: QueuedJob,
    machine: Machine,
    running: Sequence[RunningJob],
    queued: Sequence[QueuedJob],
    history: Sequence[PastRun],
    q: float,
) -> float | None:
    """Return the seconds until `wanted` starts at quantile `q`; None if unknown."""
    taken = list(machine.taken)
    ends = [(max(0.0, takes(job.limit, q, history, job.elapsed) - job.elapsed), job.place) for job in running]
    waiting = [*queued, wanted]
    at = 0.0
    while True:
        for one in list(waiting):
            units = machine.fit(one.request, one.allowed, taken)
            if units is None:
                continue
            if one is wanted:
                return at
            for i, amount in units.items():
                taken[i] += amount
            ends.append((at + takes(one.request.duration, q, history), Place(units)))
            waiting.remove(one)
        if not ends:
            return None
        soonest = min(ends, key=lambda end: end[0])
        if soonest[0] == math.inf:
            return None
        ends.remove(soonest)
        at = max(at, soonest[0])
        for i, amount in soonest[1].units.items():
            taken[i] -= amount


def cost(wanted: QueuedJob, machine: Machine, prices: Prices) -> float | None:
    """Return the cost of the whole job; None if it does not fit or its duration is not known."""
    units = machine.fit(wanted.request, wanted.allowed, machine.nothing())
    if units is None:
        return None
    amounts = Counter[str]()
    for i, amount in units.items():
        amounts[machine.graph.types[i]] += amount
    nodes = {machine.host[i] for i in units}
    cores, gpus = amounts["core"], amounts["gpu"]
    return prices.cost(cores=cores, nodes=len(nodes), gpus=gpus, duration=wanted.request.duration)


class RunHistory:
    """Durations of the last completed jobs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ran: list[PastRun] = []

    def read(self) -> None:
        """Read the file; skip damaged lines."""
        with contextlib.suppress(FileNotFoundError):
            lines = self._path.read_text().splitlines()
            if len(lines) > 4 * MAX_HISTORY:
                self._path.write_text("\n".join(lines[-MAX_HISTORY:]) + "\n")
            for text in lines[-MAX_HISTORY:]:
                with contextlib.suppress(ValueError, TypeError):
                    limit, took = json.loads(text)
                    self.ran.append(PastRun(limit, took))

    def add(self, limit: float | None, result: Result | None) -> None:
        """Add a completed job; ignore errors, as the history is optional."""
        if result is None or result.state is AttemptState.CANCELLED or not result.started_at or not result.ended_at:
            return
        took = result.ended_at - result.started_at
        if took < 0:
            return  # the clock was set back
        self.ran = [*self.ran[-MAX_HISTORY:], PastRun(limit, took)]
        with contextlib.suppress(OSError), self._path.open("a") as file:
            file.write(json.dumps([limit, took]) + "\n")

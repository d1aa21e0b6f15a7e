"""Whether and when this machine would run a job: its queue played forward, ends guessed from limits and past. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from rainbow_sched.agent.backends.base import Prices
from rainbow_sched.agent.backends.common.launches import copies
from rainbow_sched.agent.backends.local.machine import Machine, Place
from rainbow_sched.agent.core.values import ANY_HOST, AllowedHosts, BidAnswer
from rainbow_sched.model.request import Request

MIN_HISTORY = 5  # fewer jobs than this say nothing
KEPT_HISTORY = 500
MAX_TASKS = 1_024  # of one job


@dataclass(frozen=True, slots=True)
class Ran:
    """One job that ended by itself: its limit, if it had one, and how long it took."""

    limit: float | None
    took: float


@dataclass(frozen=True, slots=True)
class Running:
    """One job that runs."""

    place: Place
    limit: float | None
    elapsed: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """One job that does not run yet."""

    request: Request
    allowed: AllowedHosts = ANY_HOST


def impossible(wanted: Wanted, machine: Machine) -> str | None:
    """Why this machine can never run it, or None."""
    request = wanted.request
    if not request.tasks:
        return "there is nothing to run: the request has no task"
    if request.image:
        return f"this machine runs no container images ({request.image})"
    if constraint := request.options.get("constraint"):
        return f"no manager here knows the features that the constraint {constraint!r} names"
    tasks = sum(copies(request, task) for task in request.tasks)
    if tasks > MAX_TASKS:
        return f"one machine runs at most {MAX_TASKS} tasks of a job, not {tasks}"
    if any("\0" in word for task in request.tasks for word in task.command):
        return "a word of the command holds a zero byte"
    return machine.lacks(request, wanted.allowed)


def bid_on(
    wanted: Wanted,
    machine: Machine,
    running: Sequence[Running],
    queued: Sequence[Wanted],
    history: Sequence[Ran],
    prices: Prices,
) -> BidAnswer:
    """When it would start behind what runs and waits, and for how much; or why never."""
    reason = impossible(wanted, machine)
    if reason is not None:
        return BidAnswer(yes=False, reason=reason)
    p50, p90 = (starts_in(wanted, machine, running, queued, history, q) for q in (0.5, 0.9))
    return BidAnswer(
        yes=True,
        start_p50=p50,
        start_p90=None if p50 is None or p90 is None else max(p50, p90),
        cost=cost(wanted, machine, prices),
        valid_for=30.0,
    )


def quantile(values: Sequence[float], q: float) -> float:
    """The value below which a share `q` of `values` lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def takes(limit: float | None, q: float, history: Sequence[Ran], elapsed: float = 0.0) -> float:
    """How long a job takes in all, at quantile `q`, given that it has run for `elapsed`; inf if nothing is known.

    With a limit, jobs of the past tell what share of their limits they used; without one, how long they took. Only
    those that outlived `elapsed` are comparable. The limit is never exceeded.
    """
    if limit is not None:
        alike = [used for ran in history if ran.limit and (used := ran.took / ran.limit * limit) >= elapsed]
    else:
        alike = [ran.took for ran in history if ran.took >= elapsed]
    if len(alike) < MIN_HISTORY:
        return limit if limit is not None else math.inf
    guess = quantile(alike, q)
    return guess if limit is None else min(guess, limit)


def starts_in(
    wanted: Wanted,
    machine: Machine,
    running: Sequence[Running],
    queued: Sequence[Wanted],
    history: Sequence[Ran],
    q: float,
) -> float | None:
    """Seconds until `wanted` would start behind what runs and waits, at quantile `q`; None if that cannot be told."""
    trial = copy(machine)
    trial.free = dict(machine.free)
    ends = [(max(0.0, takes(job.limit, q, history, job.elapsed) - job.elapsed), job.place) for job in running]
    waiting = [*queued, wanted]
    at = 0.0
    while True:
        for one in list(waiting):
            units = trial.fit(one.request, one.allowed)
            if units is None:
                continue
            if one is wanted:
                return at
            for i, amount in units.items():
                trial.free[i] -= amount
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
            trial.free[i] += amount


def cost(wanted: Wanted, machine: Machine, prices: Prices) -> float | None:
    """What the whole job would cost; None if its length is not known, or it does not fit."""
    units = machine.fit(wanted.request, wanted.allowed, empty=True)
    if units is None:
        return None
    of = {"core": 0, "gpu": 0}
    nodes = set()
    for i, amount in units.items():
        kind = machine.graph.types[i]
        if kind in of:
            of[kind] += amount
        while i >= 0 and machine.graph.types[i] != "node":
            i = machine.graph.parents[i]
        nodes.add(i)
    return prices.cost(cores=of["core"], nodes=len(nodes), gpus=of["gpu"], duration=wanted.request.duration)

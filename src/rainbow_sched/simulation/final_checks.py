"""Checks at the end of a world: after the last fault every job ends, and every promise is checked again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store.base import JobSelection, Tx

if TYPE_CHECKING:
    from rainbow_sched.simulation.world import World

LOOK_EVERY = 2.0
TIDY_AFTER = 15.0


async def settle(world: World, within: float) -> None:
    """Wait until nothing changes any more; report a violation if that takes too long."""
    until = world.loop.time() + within
    await asyncio.sleep(LOOK_EVERY)
    tidied = 0.0
    while True:
        if world.loop.time() >= tidied:
            world.users.tidy_up()
            tidied = world.loop.time() + TIDY_AFTER
        await asyncio.sleep(LOOK_EVERY)
        restless = world.users.unsettled() or _unquiet(world)
        if not restless:
            break
        if world.loop.time() >= until:
            world.witness.broken("I7 when faults stop, every job ends or says why it waits", "; ".join(restless))
            return
    for check in ENDINGS:
        what = check(world)
        if what is not None:
            world.witness.broken((check.__doc__ or "").rstrip("."), what)


def _unquiet(world: World) -> list[str]:
    """Return agents with attempts, runs that did not end, and calls without an answer."""
    held = [
        f"the agent of {name} holds {ref.tag} as {one.phase.value}"
        for name, agent in world.agents.items()
        for ref, one in agent.state.attempts.items()
    ]
    live = [
        f"attempt {run.n} of job {run.job} runs on {run.cluster}"
        for runs in world.truth.runs.values()
        for run in runs
        if run.result is None
    ]
    calls = [f"{world.users.waiting} calls have no answer"] if world.users.waiting else []
    away = [f"{name} is {standing}" for name, standing in _standings(world).items() if standing != Standing.ACTIVE]
    return held + live + calls + (away if world.server.service is not None else ["the server is down"])


def _standings(world: World) -> dict[str, Standing]:
    return {
        cluster.name: cluster.standing
        for cluster in world.disk.look(lambda tx: tx.clusters())
        if cluster.standing is not Standing.DEGRADED  # only a good start closes a breaker, and nothing is left to start
    }


def i1_nothing_is_lost(world: World) -> str | None:
    """I1 every acknowledged job is there, byte for byte."""

    def work(tx: Tx) -> str | None:
        for id, spec in world.witness.acknowledged.items():
            job = tx.job(id)
            if job is None or job.spec != spec:
                return f"job {id} was acknowledged, and the store has {job}"
        return None

    return world.disk.look(work)


def i2_tokens_are_single(world: World) -> str | None:
    """I2 there is one job per client token."""
    stored = world.disk.look(lambda tx: tx.list_jobs(JobSelection(), limit=10_000))
    tokens = [(job.owner, job.client_token) for job in stored if job.client_token]
    return None if len(tokens) == len(set(tokens)) else "two jobs have the same client token"


def i9_cancelled_stays(world: World) -> str | None:
    """I9 what was acknowledged as cancelled is cancelled."""
    for id in sorted(world.users.cancelled):
        state = world.witness.jobs[id].state
        if state is not JobState.CANCELLED:
            return f"job {id} was said to be cancelled and is {state}"
    return None


def i11_all_is_free(world: World) -> str | None:
    """I11 when nothing runs, nothing is taken."""
    differing = world.differing_fences()
    return f"{len(differing)} reservations differ from the live attempts: {differing}" if differing else None


def i16_all_are_back(world: World) -> str | None:
    """I16 after an outage nobody is left unknown."""
    for attempts in world.witness.attempts.values():
        for attempt in attempts:
            if attempt.suspect and attempt.state.live:
                return f"attempt {attempt.n} of job {attempt.job} is still suspect"
    return None


def output_is_whole(world: World) -> str | None:
    """The output that came back is what the job wrote."""
    initial_rates = world.initial_rates
    cut = (
        initial_rates.manager_forgets or initial_rates.journal_lost or initial_rates.partition or initial_rates.refusal
    )
    whole = not (cut or world.witness.restored)

    def work(tx: Tx) -> str | None:
        for run in (run for runs in world.truth.runs.values() for run in runs):
            stored = tx.output(run.job, run.n, "stdout", 0, 10_000)
            attempt = tx.attempt(run.job, run.n)
            if not run.output.startswith(stored):
                return f"attempt {run.n} of job {run.job} wrote {run.output!r}, and {stored!r} is stored"
            if whole and attempt is not None and attempt.state is AttemptState.SUCCEEDED and stored != run.output:
                return f"attempt {run.n} of job {run.job} wrote {len(run.output)} bytes, and {len(stored)} are stored"
        return None

    return world.disk.look(work)


ENDINGS = (
    i1_nothing_is_lost,
    i2_tokens_are_single,
    i9_cancelled_stays,
    i11_all_is_free,
    i16_all_are_back,
    output_is_whole,
)

"""Checks that look at a whole world: each second, and at its end, when no more faults happen and every job must end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.job_state import JobState
from rainbow_sched.simulation.invariants import SLACK
from rainbow_sched.simulation.manager import LIMITS
from rainbow_sched.store.base import JobSelection, Tx

if TYPE_CHECKING:
    from rainbow_sched.simulation.world import World

LOOK_EVERY = 2.0
TIDY_AFTER = 15.0


# --- each second ---


def r6b_guards_act(world: World) -> str | None:
    """R6c a run that may be started elsewhere ends when its agent has been out of touch for too long."""
    now, rates = world.loop.time(), world.initial_rates
    takes = 30.0 if rates.slow or rates.manager_error else 3.0  # to end a run: commands can be slow and get lost
    for name, agent in world.agents.items():
        if agent.up_since is None or now - agent.up_since < takes or agent.contact is None:
            continue
        silent = agent.clock() - agent.contact - takes
        guards = {  # an agent without its journal guards nothing
            (ref.job, ref.n): held.offer.guard(LIMITS.run_guard) for ref, held in agent.state.attempts.items()
        }
        for run in world.truth.all():
            begun = now - run.started >= takes  # a guard needs time after the launch, too
            guard = guards.get((run.job, run.n))
            if begun and run.result is None and run.cluster == name and guard is not None and silent > guard:
                return f"job {run.job} runs on {name}, out of touch for {silent:.0f} s"
    return None


def r7_silence_ends(world: World) -> str | None:
    """R7 nobody waits longer for a silent cluster than the owner said."""
    service = world.server.service
    if service is None or world.server.full:
        return None
    now = service.core.clock.now()
    for name in world.shapes:
        silence = service.core.presence.silence(name, now)
        for attempt in world.witness.held_on(name):
            if silence > world.witness.patience(attempt) + SLACK:
                return f"attempt {attempt.n} of job {attempt.job} waits for {name}, silent for {silence:.0f} s"
    return None


def _differing_fences(world: World) -> list[tuple[str, str]]:
    """Return what is reserved in the server's fleet and no live attempt of the store, or the reverse."""
    service = world.server.service
    if service is None:
        return []
    attempts = [attempts[-1] for attempts in world.witness.attempts.values() if attempts]
    live = {(attempt.cluster, attempt.token) for attempt in attempts if attempt.state.live}
    fleet = service.core.fleet
    reserved = {(name, fence) for name in fleet.names() for fence in fleet.member(name).placements}
    return sorted(live ^ reserved)


def i11_reservations_are_attempts(world: World) -> str | None:
    """I11 what is reserved in the fleet is what the live attempts in the store hold, except during a write."""
    now = world.loop.time()
    world.differing = {key: world.differing.get(key, now) for key in _differing_fences(world)}
    for (name, fence), since in world.differing.items():
        if now - since > SLACK:
            return f"fence {fence} is reserved on {name} or lives there, and not both, for {now - since:.0f} s"
    return None


EACH_SECOND = (i11_reservations_are_attempts, r6b_guards_act, r7_silence_ends)


# --- at the end ---


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
    world.witness.hold(AT_THE_END, world)


def _unquiet(world: World) -> list[str]:
    """Return agents with attempts, runs that did not end, and calls without an answer."""
    held = [
        f"the agent of {name} holds {ref.tag} as {one.phase.value}"
        for name, agent in world.agents.items()
        for ref, one in agent.state.attempts.items()
    ]
    live = [
        f"attempt {run.n} of job {run.job} runs on {run.cluster}" for run in world.truth.all() if run.result is None
    ]
    calls = [f"{world.users.waiting} calls have no answer"] if world.users.waiting else []
    back = (Standing.ACTIVE, Standing.DEGRADED)  # only a good start closes a breaker, and nothing is left to start
    clusters = world.disk.look(lambda tx: tx.clusters())
    away = [f"{cluster.name} is {cluster.standing}" for cluster in clusters if cluster.standing not in back]
    return held + live + calls + (away if world.server.service is not None else ["the server is down"])


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
    differing = _differing_fences(world)
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
    rates = world.initial_rates
    cut = rates.manager_forgets or rates.journal_lost or rates.partition or rates.refusal
    whole = not (cut or world.witness.restored)

    def work(tx: Tx) -> str | None:
        for run in world.truth.all():
            stored = tx.output(run.job, run.n, "stdout", 0, 10_000)
            attempt = tx.attempt(run.job, run.n)
            if not run.output.startswith(stored):
                return f"attempt {run.n} of job {run.job} wrote {run.output!r}, and {stored!r} is stored"
            if whole and attempt is not None and attempt.state is AttemptState.SUCCEEDED and stored != run.output:
                return f"attempt {run.n} of job {run.job} wrote {len(run.output)} bytes, and {len(stored)} are stored"
        return None

    return world.disk.look(work)


AT_THE_END = (
    i1_nothing_is_lost,
    i2_tokens_are_single,
    i9_cancelled_stays,
    i11_all_is_free,
    i16_all_are_back,
    output_is_whole,
)

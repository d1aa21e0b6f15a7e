"""Calls above the deadline are cancelled, and under load new jobs are shed before anything else."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.server.admission.calls import Call, Method
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.admission.policy import V2
from rainbow_sched.server.admission.running_calls import MIN_QUEUE_LENGTH, CallGuard, Deadlines
from tests.support.manual_clock import ManualClock
from tests.unit.access.calls import ask, code_of
from tests.unit.access.test_tokens import fields_of
from tests.unit.access.world import a_submit, a_world
from tests.unit.server.admission.test_limits import healthy


async def held(deadlines: Deadlines, until: asyncio.Future[str]) -> str:
    call = asyncio.current_task()
    assert call is not None
    deadlines.begin(call)
    try:
        return await until
    except asyncio.CancelledError:
        return "cancelled by another" if deadlines.end(call) else "over time"
    finally:
        deadlines.end(call)


async def test_each_call_is_ended_at_its_own_time_and_no_other_is() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(0.2)
    never = [loop.create_future() for _ in range(3)]
    slow = [asyncio.create_task(held(deadlines, one)) for one in never[:2]]
    soon: asyncio.Future[str] = loop.create_future()
    quick = asyncio.create_task(held(deadlines, soon))
    loop.call_soon(soon.set_result, "in time")
    assert await quick == "in time"
    began = loop.time()
    loop.call_later(0.1, lambda: slow.append(asyncio.create_task(held(deadlines, never[2]))))
    assert await asyncio.gather(*slow) == ["over time"] * 2
    assert loop.time() - began < 0.3, "the calls waited for the later one"
    assert not slow[2].done()
    assert await slow[2] == "over time"
    assert loop.time() - began >= 0.29


async def test_a_call_that_is_cancelled_for_another_reason_is_not_over_time() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(60.0)
    call = asyncio.create_task(held(deadlines, loop.create_future()))
    await asyncio.sleep(0)
    call.cancel()
    assert await call == "cancelled by another"


async def test_deadlines_work_after_a_pause_without_calls() -> None:
    loop, deadlines = asyncio.get_running_loop(), Deadlines(0.02)
    for _ in range(2):
        assert await asyncio.create_task(held(deadlines, loop.create_future())) == "over time"
        idle = loop.create_future()
        loop.call_later(0.05, idle.set_result, None)
        await idle


def a_guard(**limits: float) -> CallGuard:
    return CallGuard(AdmissionLimits(**limits), ManualClock())  # type: ignore[arg-type]


def a_call(path: str) -> Call:
    context = SimpleNamespace(peer=lambda: "unix:", time_remaining=lambda: None)
    return Call.of(Method.of(path), context)  # type: ignore[arg-type]  # what a guard asks of a context


async def test_submissions_are_turned_away_first_and_nothing_is_counted_twice() -> None:
    guard, free = a_guard(in_flight=2, submitting=1), asyncio.Event()

    async def hold(message: object, context: object) -> str:
        await free.wait()
        return "done"

    def start(path: str) -> asyncio.Task[str]:
        return asyncio.create_task(guard.run(hold, a_call(path)))

    running = [start(f"{V2}Jobs/Submit")]
    await asyncio.sleep(0)
    with pytest.raises(Exhausted, match="no new jobs"):
        await start(f"{V2}Jobs/Submit")
    running.append(start(f"{V2}Jobs/List"))
    await asyncio.sleep(0)
    with pytest.raises(Exhausted, match="concurrent calls"):
        await start(f"{V2}Jobs/List")
    free.set()
    assert await asyncio.gather(*running) == ["done", "done"]
    assert (guard._in_flight, guard._submitting) == (0, 0)


def test_a_job_that_its_submitter_would_not_wait_for_is_turned_away_with_the_time_to_come_back() -> None:
    guard = a_guard(wait=10.0)
    for _ in range(200):  # each took 10 ms
        guard.end_submission(guard.begin_submission(None), 0.01, measured=True)
    for _ in range(MIN_QUEUE_LENGTH):  # a short queue is always let in
        guard.begin_submission(0.001)
    for _ in range(30):
        guard.begin_submission(2.0)
    with pytest.raises(Exhausted) as busy:  # 46 before it: about half a second, which is all that it has
        guard.begin_submission(0.5)
    assert 2.6 < busy.value.retry_after < 3.2
    while guard._submitting < 990:
        guard.begin_submission(60.0)
    with pytest.raises(Exhausted):
        for _ in range(20):
            guard.begin_submission(None)  # it would wait without end, and the server for 10 seconds
    for ahead in range(guard._submitting):
        guard.end_submission(ahead, 0.0, measured=False)
    assert guard.begin_submission(0.5) == 0


def test_one_slow_answer_turns_nobody_away_for_long() -> None:
    guard = a_guard()
    guard.end_submission(guard.begin_submission(None), 30.0, measured=True)
    for _ in range(60):
        guard.end_submission(guard.begin_submission(None), 0.005, measured=True)
    assert [guard.begin_submission(1.0) for _ in range(30)] == list(range(30))


async def test_a_blocked_loop_is_noticed_and_forgotten_again() -> None:
    guard = a_guard()
    task = asyncio.create_task(guard.measure_lag())
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - blocking the loop is the point
    await asyncio.sleep(0.06)
    assert guard.lag > 0.1
    before = guard.lag
    async with asyncio.timeout(30):  # a busy machine is late by itself
        while guard.lag >= before:
            await asyncio.sleep(0.1)
    task.cancel()


async def test_under_load_new_jobs_are_shed_and_agents_are_not(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        world.running.admission.calls.lag = 1e9
        ana, agent = world.credentials["ana"], world.credentials["agent-alpha"]
        assert await code_of(ask(world.channel, "Jobs/Submit", ana, **fields_of(a_submit("alpha")))) == (
            "RESOURCE_EXHAUSTED"
        )
        sync = {"cluster": "alpha", "epoch": "e", "seq": 1}
        assert await code_of(ask(world.channel, "Agents/Sync", agent, **sync)) == "OK"
        assert await code_of(ask(world.channel, "Jobs/List", ana)) == "OK"
        assert await healthy(world.channel)


async def test_a_call_that_takes_too_long_ends_and_a_waiting_agent_does_not(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(deadline=1.5)) as world:
        agent, free = world.credentials["agent-alpha"], threading.Event()
        await ask(world.channel, "Agents/Sync", agent, cluster="alpha", epoch="e", seq=1)
        stuck = asyncio.ensure_future(world.running.service.core.store.write(lambda tx: free.wait(20)))
        try:
            state = {"cluster": "alpha", "values": "{}"}
            slow = asyncio.ensure_future(code_of(ask(world.channel, "Clusters/UpdateState", agent, **state)))
            sync = {"cluster": "alpha", "epoch": "e", "seq": 2, "wait": 5.0}
            waiting = asyncio.ensure_future(code_of(ask(world.channel, "Agents/Sync", agent, **sync)))
            assert await slow == "DEADLINE_EXCEEDED"
            assert not waiting.done()
        finally:
            free.set()
            await stuck
        waiting.cancel()

"""AdmissionLimits: nobody gets more than their share, and the server sheds new jobs before anything else."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import fields
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.errors import Exhausted, Invalid
from rainbow_sched.server.admission.limits import (
    MAX_BUCKETS,
    MIN_QUEUE_LENGTH,
    AdmissionLimits,
    EventLoopLag,
    RateLimiter,
    TokenBuckets,
)
from rainbow_sched.server.options import limits_from
from tests.unit.access.calls import ask, code_of, follow
from tests.unit.access.test_tokens import fields_of
from tests.unit.access.world import a_submit, a_world


@given(gaps=st.lists(st.floats(0, 3), min_size=1, max_size=60), rate=st.integers(1, 5), burst=st.integers(1, 5))
@settings(max_examples=200)
def test_no_window_lets_more_through_than_its_burst_and_its_rate(gaps: list[float], rate: int, burst: int) -> None:
    buckets, now, let_in = TokenBuckets(rate, burst), 100.0, []
    for gap in gaps:
        now += gap
        if buckets.take("ana", now) == 0.0:
            let_in.append(now)
    for at, first in enumerate(let_in):
        for count, last in enumerate(let_in[at:], start=1):
            assert count <= burst + (last - first) * rate + 1e-6


@given(wait=st.floats(0.001, 1), rate=st.floats(0.5, 100))
@settings(max_examples=100)
def test_after_the_time_that_is_told_the_call_is_let_in_and_shortly_before_it_is_not(wait: float, rate: float) -> None:
    buckets = TokenBuckets(rate, 1)
    assert buckets.take("ana", 0.0) == 0.0
    told = buckets.take("ana", 0.0)
    assert buckets.take("ana", told * (1 - wait / 2)) > 0.0
    assert buckets.take("ana", told * (1 + 1e-9) + 1e-9) == 0.0


def test_one_noisy_caller_takes_nothing_from_another() -> None:
    buckets = TokenBuckets(1, 2)
    assert [buckets.take("noisy", 0.0) == 0.0 for _ in range(4)] == [True, True, False, False]
    assert buckets.take("quiet", 0.0) == 0.0


def test_a_clock_that_goes_back_neither_gives_nor_takes() -> None:
    buckets = TokenBuckets(1, 1)
    assert buckets.take("ana", 1_000.0) == 0.0
    assert buckets.take("ana", 10.0) > 0.0
    assert buckets.take("ana", 1_001.0) == 0.0


def test_a_million_addresses_do_not_fill_the_memory() -> None:
    buckets = TokenBuckets(0.001, 1)
    for n in range(3 * MAX_BUCKETS):
        buckets.take(str(n), n / 1e6)
    assert len(buckets._buckets) <= MAX_BUCKETS


def test_submissions_are_turned_away_first_and_nothing_is_counted_twice() -> None:
    limiter = RateLimiter(AdmissionLimits(in_flight=2, submitting=1))
    limiter.begin_call()
    assert limiter.begin_submission(None) == 0
    with pytest.raises(Exhausted):
        limiter.begin_submission(None)
    limiter.begin_call()
    with pytest.raises(Exhausted):
        limiter.begin_call()
    limiter.end_submission(0, 1.0, measured=True)
    assert limiter.begin_submission(None) == 0
    limiter.end_submission(0, 1.0, measured=False)
    limiter.end_call()
    limiter.end_call()
    assert (limiter._in_flight, limiter._submitting) == (0, 0)


def test_a_job_that_its_submitter_would_not_wait_for_is_turned_away_with_the_time_to_come_back() -> None:
    limiter = RateLimiter(AdmissionLimits(wait=10.0))
    for _ in range(200):  # each took 10 ms
        limiter.end_submission(limiter.begin_submission(None), 0.01, measured=True)
    for _ in range(MIN_QUEUE_LENGTH):  # a short queue is always let in
        limiter.begin_submission(0.001)
    for _ in range(30):
        limiter.begin_submission(2.0)
    with pytest.raises(Exhausted) as busy:  # 46 before it: about half a second, which is all that it has
        limiter.begin_submission(0.5)
    assert 2.6 < busy.value.retry_after < 3.2
    while limiter._submitting < 990:
        limiter.begin_submission(60.0)
    with pytest.raises(Exhausted):
        for _ in range(20):
            limiter.begin_submission(None)  # it would wait for ever, and the server for 10 seconds
    for ahead in range(limiter._submitting):
        limiter.end_submission(ahead, 0.0, measured=False)
    assert limiter.begin_submission(0.5) == 0


def test_one_slow_answer_turns_nobody_away_for_long() -> None:
    limiter = RateLimiter(AdmissionLimits())
    limiter.end_submission(limiter.begin_submission(None), 30.0, measured=True)
    for _ in range(60):
        limiter.end_submission(limiter.begin_submission(None), 0.005, measured=True)
    assert [limiter.begin_submission(1.0) for _ in range(30)] == list(range(30))


async def test_a_blocked_loop_is_noticed_and_forgotten_again() -> None:
    lag = EventLoopLag()
    task = asyncio.create_task(lag.run())
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251 - blocking the loop is the point
    await asyncio.sleep(0.06)
    assert lag.seconds > 0.1
    before = lag.seconds
    await asyncio.sleep(0.5)
    assert lag.seconds < before
    task.cancel()


def test_limits_come_from_the_configuration_and_nonsense_is_named() -> None:
    assert limits_from({"rate": 5, "burst": 7.5}) == AdmissionLimits(rate=5, burst=7.5)
    for wrong in ({"rte": 1}, {"rate": "fast"}, {"rate": 0}, {"rate": True}, {"lag": -1}):
        with pytest.raises(Invalid):
            limits_from(wrong)


async def test_who_is_too_fast_is_told_when_to_come_back_and_others_go_on(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(rate=1, burst=5, refused_burst=1000)) as world:
        ana = world.credentials["ana"]
        codes = [await code_of(ask(world.channel, "Jobs/List", ana)) for _ in range(8)]
        assert codes.count("RESOURCE_EXHAUSTED") >= 2
        with pytest.raises(aio.AioRpcError) as refused:
            while True:
                await ask(world.channel, "Jobs/List", ana)
        trailing = dict(refused.value.trailing_metadata() or ())
        assert 0 < float(trailing["retry-after"]) <= 1.0
        assert await code_of(ask(world.channel, "Jobs/List", world.credentials["bob"])) == "OK"
        assert await healthy(world.channel)


async def test_guessing_from_one_address_is_slowed_and_those_who_are_known_there_are_not(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(refused_rate=0.01, refused_burst=5)) as world:
        ana = world.credentials["ana"]
        assert await code_of(ask(world.channel, "Jobs/List", ana)) == "OK"
        guesses = [await code_of(ask(world.channel, "Jobs/List", f"guess {n}")) for n in range(12)]
        assert guesses.count("UNAUTHENTICATED") == 5
        assert guesses.count("RESOURCE_EXHAUSTED") == 7
        world.running.service.core.credential_resolver.forget()
        assert await code_of(ask(world.channel, "Jobs/List", ana)) == "OK"
        assert await healthy(world.channel)


async def test_under_load_new_jobs_are_shed_and_agents_are_not(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        world.running.gate.limiter.lag.seconds = 1e9
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


async def test_nobody_follows_without_end(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(streams=2)) as world:
        open_ones = [follow(world.channel, "Jobs/Watch", world.credentials["ana"]) for _ in range(2)]
        for one in open_ones:
            await one.read()
        third = follow(world.channel, "Jobs/Watch", world.credentials["ana"])
        with pytest.raises(aio.AioRpcError) as refused:
            await third.read()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for one in open_ones:
            one.cancel()


async def test_an_owner_has_only_so_many_jobs_that_have_not_ended_however_fast_they_come(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world", limits=AdmissionLimits(queued=5)) as world:
        ana = world.credentials["ana"]
        calls = (ask(world.channel, "Jobs/Submit", ana, **fields_of(a_submit("alpha"))) for _ in range(20))
        codes = await asyncio.gather(*(code_of(call) for call in calls))
        assert codes.count("OK") == 4  # one was there before
        assert set(codes) == {"OK", "RESOURCE_EXHAUSTED"}
        await ask(world.channel, "Jobs/Cancel", ana, ids=[world.jobs["own"]])
        assert await code_of(ask(world.channel, "Jobs/Submit", ana, **fields_of(a_submit("alpha")))) == "OK"


async def healthy(channel: aio.Channel) -> bool:
    """True if health answers."""
    answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


@pytest.mark.parametrize("name", [one.name for one in fields(AdmissionLimits)])
def test_no_limit_can_be_zero(name: str) -> None:
    with pytest.raises(Invalid, match=f"the limit {name} must be above 0"):
        AdmissionLimits(**{name: 0})

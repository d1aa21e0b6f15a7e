"""AdmissionLimits: nobody gets more than their share."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.errors import Exhausted, Invalid
from rainbow_sched.server.admission.limits import MAX_BUCKETS, AdmissionLimits, ConcurrencyLimit, TokenBuckets
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


@given(
    steps=st.lists(st.tuples(st.sampled_from("ab"), st.integers(-6, 6), st.integers(1, 3)), max_size=60),
    rate=st.integers(1, 3),
    burst=st.integers(1, 5),
)
@settings(max_examples=300)
def test_buckets_agree_with_tokens_counted_one_by_one(steps: list[tuple[str, int, int]], rate: int, burst: int) -> None:
    """The oracle's clock only moves forward: a key's time is the latest that was seen for it."""
    buckets, now = TokenBuckets(rate, burst), 1_000
    tokens, latest = {"a": burst, "b": burst}, {"a": 0, "b": 0}
    for key, gap, cost in steps:
        now += gap
        latest[key] = latest[key] or now
        for _ in range(latest[key], now):
            tokens[key] = min(burst, tokens[key] + rate)
            latest[key] += 1
        assert buckets.empty(key, now) == (0 if tokens[key] else 1 / rate)
        missing = max(0, cost - tokens[key])
        assert buckets.take(key, now, cost) == missing / rate
        tokens[key] -= 0 if missing else cost


def test_a_million_addresses_do_not_fill_the_memory() -> None:
    buckets = TokenBuckets(0.001, 1)
    for n in range(3 * MAX_BUCKETS):
        buckets.take(str(n), n / 1e6)
    assert len(buckets._buckets) <= MAX_BUCKETS


async def test_concurrency_is_limited_in_total_and_per_key_and_all_proceed() -> None:
    slots, now, most = ConcurrencyLimit(total=3, per_key=2, timeout=60.0), {"a": 0, "b": 0}, {"a": 0, "b": 0, "all": 0}
    done = []

    async def read(key: str) -> None:
        async with slots.slot(key):
            now[key] += 1
            most[key], most["all"] = max(most[key], now[key]), max(most["all"], sum(now.values()))
            for _ in range(5):
                await asyncio.sleep(0)
            now[key] -= 1
        done.append(key)

    await asyncio.gather(*(read(key) for key in "ab" * 20))
    assert most == {"a": 2, "b": 2, "all": 3}
    assert len(done) == 40
    assert slots._by_key == {}, "keys without waiters are deleted"


async def test_waiting_too_long_for_a_slot_is_rejected_and_blocks_nobody() -> None:
    slots = ConcurrencyLimit(total=2, per_key=1, timeout=0.05)
    async with slots.slot("a"):
        with pytest.raises(Exhausted):
            async with slots.slot("a"):
                pass
        async with slots.slot("b"):
            pass
    async with slots.slot("a"):
        await asyncio.sleep(0.1)  # a turn itself may take longer than the wait for one


async def test_the_queue_of_one_key_is_bounded() -> None:
    slots = ConcurrencyLimit(total=1, per_key=1, timeout=60.0)
    free = asyncio.Event()

    async def hold() -> None:
        async with slots.slot("a"):
            await free.wait()

    waiting = [asyncio.ensure_future(hold()) for _ in range(100)]
    await asyncio.sleep(0)
    with pytest.raises(Exhausted):
        async with slots.slot("a"):
            pass
    free.set()
    await asyncio.gather(*waiting)


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

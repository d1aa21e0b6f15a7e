"""The doorway: how many strangers are read at a time, and who goes through without a look."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.server.admission.pre_auth import ConcurrencyLimit
from tests.unit.access.calls import ask, code_of
from tests.unit.access.world import a_world


async def test_so_many_are_read_at_a_time_in_all_and_of_one_address_and_all_get_their_turn() -> None:
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
    assert slots._by_key == {}, "nobody is remembered who does not wait"


async def test_whoever_waits_too_long_for_a_turn_is_told_to_come_back_and_blocks_nobody() -> None:
    slots = ConcurrencyLimit(total=2, per_key=1, timeout=0.05)
    async with slots.slot("a"):
        with pytest.raises(Exhausted):
            async with slots.slot("a"):
                pass
        async with slots.slot("b"):
            pass
    async with slots.slot("a"):
        await asyncio.sleep(0.1)  # a turn itself may take longer than the wait for one


async def test_one_address_cannot_queue_up_without_end() -> None:
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


async def test_a_credential_goes_the_short_way_once_it_was_good_and_a_revoked_one_is_refused_on_it(
    tmp_path: Path,
) -> None:
    async with a_world(tmp_path / "world") as world:
        authenticator = world.running.gate._authenticator
        bob = world.credentials["bob"]
        known = [("authorization", f"Bearer {bob}")]
        assert await code_of(ask(world.channel, "Access/WhoAmI", bob)) == "OK"
        assert authenticator.has_known_credential(known)
        assert not authenticator.has_known_credential([("authorization", "Bearer somebody")])
        assert not authenticator.has_known_credential([])
        await ask(world.channel, "Access/RevokeToken", world.credentials["admin"], id=world.tokens["other"])
        assert await code_of(ask(world.channel, "Access/WhoAmI", bob)) == "UNAUTHENTICATED"

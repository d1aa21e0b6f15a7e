"""Pre-authentication limits concurrent reads for unknown callers and is skipped for known credentials."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.server.admission.pre_auth import ConcurrencyLimit
from tests.unit.access.calls import ask, code_of
from tests.unit.access.world import a_world


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


async def test_a_credential_that_was_valid_skips_pre_auth_and_a_revoked_one_is_rejected(
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

"""A stream of events says where it begins, so that who is cut before any event can go on from there."""

from __future__ import annotations

from pathlib import Path

from tests.unit.access.calls import follow
from tests.unit.access.world import a_world


async def test_a_watch_from_now_on_says_at_once_after_which_event_it_begins(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        admin = world.credentials["admin"]
        watch = follow(world.channel, "Jobs/Watch", admin, from_now=True)
        after = int(dict(await watch.initial_metadata())["rainbow-after"])
        earlier = follow(world.channel, "Jobs/Watch", admin, after=after - 1)
        assert (await earlier.read()).seq == after, "the last event that there is"
        for call in (watch, earlier):
            call.cancel()

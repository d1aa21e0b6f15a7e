"""Agents' secrets are renewed by themselves, and whoever is killed in between, the agent holds one that is good."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.agent.runtime.link import Rotation, ServerLink
from rainbow_sched.client.settings import Address, ClientSettings
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.credential import digest, id_of
from rainbow_sched.model.errors import RainbowError, Unavailable
from rainbow_sched.protocol.messages import SyncMessage, SyncRequest
from rainbow_sched.service.access.renewal import GRACE_SECONDS
from rainbow_sched.store.base import Tx
from tests.unit.access.calls import ask, code_of, follow
from tests.unit.access.world import World, a_world, end_at


class Killed(BaseException):
    """The process is no more: nothing catches this."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with a_world(tmp_path / "world") as made:
        yield made


class Place:
    """An agent's state directory; processes come and go."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.home = world, folder / "agent" / "secret"
        self.home.parent.mkdir(mode=0o700)
        self.home.write_text(world.credentials["agent-alpha"] + "\n")
        self.home.chmod(0o600)
        self.seq = itertools.count(1)

    def process(self) -> tuple[ServerLink, Rotation]:
        """A process that starts with what is on disk."""
        host, _, port = self.world.running.address.rpartition(":")
        settings = ClientSettings(servers=(Address(host, int(port), False),))
        sender = SyncRequest(message=SyncMessage(seq=0), cluster="alpha", epoch="journal.e")
        link = ServerLink(settings, sender, self.home.read_text().strip(), NodeRules)
        return link, Rotation(self.home, link, every=3600.0)

    async def speaks(self) -> str:
        """What a new process's Sync is answered, with whichever secret it finds."""
        link, _ = self.process()
        try:
            await link.sync(SyncMessage(seq=next(self.seq)))
        except RainbowError as error:
            return type(error).__name__
        finally:
            await link.close()
        return "OK"


STEPS = ("write", "begin", "use", "rename")


def killing(monkeypatch: pytest.MonkeyPatch, link: ServerLink, rotation: Rotation, step: str, when: str) -> None:
    """Have the process die right before or after a step, or in the middle: done, but the answer never came."""
    calls = itertools.count()
    inner, taken, name = link.renew, {"begin": 1, "use": 2}.get(step), rotation._next

    async def renew(bearer: str, id: str, digest: bytes) -> None:
        number = next(calls)  # 0: the new one is tried, 1: the old one tells of it, 2: the new one is used
        if number == taken and when == "before":
            raise Killed
        await inner(bearer, id, digest)
        if number == taken:
            raise Killed

    def written() -> str:
        if step == "write" and when == "before":
            raise Killed
        text = name()
        if step == "write":
            raise Killed
        return text

    monkeypatch.setattr(link, "renew", renew)
    monkeypatch.setattr(rotation, "_next", written)
    if step == "rename":
        replace = Path.replace

        def renamed(path: Path, target: Path) -> None:
            if when == "after":
                replace(path, target)
            raise Killed

        monkeypatch.setattr(Path, "replace", renamed)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_kill_between_any_two_steps_leaves_a_secret_that_is_good(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, when: str
):
    place = Place(world, tmp_path)
    old = place.home.read_text().strip()
    link, rotation = place.process()
    with monkeypatch.context() as patched:
        killing(patched, link, rotation, step, when)
        with pytest.raises(Killed):
            await rotation.renew()
    await link.close()
    assert await place.speaks() == "OK"
    await lapse(world)  # a long while later: whatever was to end has ended
    assert await place.speaks() == "OK"
    link, rotation = place.process()
    await rotation.renew()
    await link.close()
    new = place.home.read_text().strip()
    assert new != old
    assert not rotation.beside.exists()
    assert place.home.stat().st_mode & 0o777 == 0o600
    await lapse(world)
    assert await code_of(ask(world.channel, "Access/WhoAmI", new)) == "OK"
    assert await code_of(ask(world.channel, "Access/WhoAmI", old)) == "UNAUTHENTICATED"


async def lapse(world: World) -> None:
    """Every end that is set is now."""
    core = world.running.service.core

    def work(tx: Tx) -> None:
        for credential in tx.credentials():
            if credential.ends_at is not None:
                end_at(tx, credential.id, core.clock.now() - 1)

    await core.store.write(work)
    core.credential_resolver.forget()


async def test_both_are_good_during_the_change_and_the_old_one_ends_when_the_new_one_was_used(world: World):
    old = world.credentials["agent-alpha"]
    new = "rbw_agt_newnewnewnew_" + "n" * 43
    begin = {"cluster": "alpha", "id": id_of(new), "digest": digest(new)}
    assert await code_of(ask(world.channel, "Access/WhoAmI", new)) == "UNAUTHENTICATED"
    for _ in range(2):
        await ask(world.channel, "Agents/Renew", old, **begin)
    await lapse(world)
    assert [await code_of(ask(world.channel, "Access/WhoAmI", one)) for one in (old, new)] == ["OK", "OK"]
    for _ in range(2):
        await ask(world.channel, "Agents/Renew", new, **begin)
    assert (
        await ask(world.channel, "Access/WhoAmI", old)
    ).expires_at <= world.running.service.core.clock.now() + GRACE_SECONDS
    refused = ask(world.channel, "Agents/Renew", old, cluster="alpha", id="other0other0", digest=b"x" * 32)
    assert await code_of(refused) == "PERMISSION_DENIED"


async def test_a_change_that_was_given_up_leaves_no_secret_behind(world: World):
    old = world.credentials["agent-alpha"]
    first, second = (f"rbw_agt_{name * 3}_" + "n" * 43 for name in ("aaaa", "bbbb"))
    for text in (first, second):
        await ask(world.channel, "Agents/Renew", old, cluster="alpha", id=id_of(text), digest=digest(text))
    codes = [await code_of(ask(world.channel, "Access/WhoAmI", one)) for one in (old, first, second)]
    assert codes == ["OK", "UNAUTHENTICATED", "OK"]


async def test_nobody_takes_the_id_of_another_credential(world: World):
    async def answer(id: str | None, sent: bytes = b"x" * 32) -> str:
        mine = world.credentials["agent-alpha"]
        return await code_of(ask(world.channel, "Agents/Renew", mine, cluster="alpha", id=id, digest=sent))

    for id in (world.tokens["own"], id_of(world.credentials["agent-beta"]), id_of(world.credentials["admin"])):
        assert await answer(id) == "ALREADY_EXISTS"
    assert await answer("ABCDEFGHIJKL") == "INVALID_ARGUMENT"
    assert await answer("") == "INVALID_ARGUMENT"
    assert await answer("abcdefghijkl", b"x") == "INVALID_ARGUMENT"


async def test_a_secret_that_was_revoked_in_between_is_not_tried_for_ever(world: World, tmp_path: Path):
    place = Place(world, tmp_path)
    link, rotation = place.process()
    await link.renew(link.secret, id := id_of(rotation._next()) or "", digest(rotation._next()))
    await ask(world.channel, "Access/RevokeToken", world.credentials["admin"], id=id)
    with pytest.raises(RainbowError):
        await rotation.renew()
    await rotation.renew()
    await link.close()
    assert await place.speaks() == "OK"


async def test_an_agent_renews_when_the_server_asks_and_only_then(world: World, tmp_path: Path):
    place = Place(world, tmp_path)
    link, rotation = place.process()
    running = asyncio.create_task(rotation.run())
    try:
        await link.sync(SyncMessage(seq=1))
        assert not link.renewal_requested.is_set()
        await ask(world.channel, "Access/AskRenewal", world.credentials["admin"], cluster="alpha")
        old = link.secret
        await link.sync(SyncMessage(seq=2))
        async with asyncio.timeout(10):
            while link.secret == old:
                await asyncio.sleep(0)
        assert place.home.read_text().strip() == link.secret
        await link.sync(SyncMessage(seq=3))
        assert not link.renewal_requested.is_set()
    finally:
        running.cancel()
        await link.close()


async def test_an_old_secret_is_renewed_by_its_age_and_a_young_one_is_not(world: World, tmp_path: Path):
    place = Place(world, tmp_path)
    link, _ = place.process()
    done: list[int] = []

    class Watched(Rotation):
        async def renew(self) -> None:
            done.append(1)
            raise Unavailable("not now")

    for age, renewals in ((3000.0, 0), (4000.0, 1)):
        rotation = Watched(place.home, link, every=3600.0, clock=lambda age=age: place.home.stat().st_mtime + age)
        task = asyncio.create_task(rotation.run())
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        assert len(done) == renewals
    await link.close()


async def test_a_stream_that_was_open_before_a_rotation_is_cut_when_the_old_one_ends(world: World):
    stream = follow(world.channel, "Jobs/Watch", world.credentials["ana"])
    await anext(aiter(stream))
    await ask(world.channel, "Access/RotateToken", world.credentials["ana"], grace=1.0)
    assert await code_of(drained(stream)) == "UNAUTHENTICATED"


async def drained(stream: object) -> None:
    async for _ in stream:
        pass

"""Tokens: nobody hands out more than they have, a revoked one ends within a second, a rotated one overlaps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc import aio

from rainbow_sched.pb.v2 import access_pb2
from rainbow_sched.service.access.principals import changed
from rainbow_sched.store.base import Tx
from tests.unit.access.calls import ask, code_of, follow
from tests.unit.access.world import World, a_submit, a_world, end_at, register

NAMES = access_pb2.Names


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A populated server."""
    async with a_world(tmp_path / "world") as made:
        yield made


async def made(world: World, by: str, **fields: object) -> str:
    """The text of a new token."""
    return str((await ask(world.channel, "Access/CreateToken", world.credentials[by], **fields)).text)


async def test_a_token_opens_what_its_owner_may_and_no_more(world: World) -> None:
    wide = await made(world, "admin", owner="bob", scopes=["submit:*", "job:read:all", "admin"])
    who = await ask(world.channel, "Access/WhoAmI", wide)
    assert sorted(who.scopes) == ["job:cancel:own", "job:read:own", "submit:*"]  # bob is no administrator


async def test_a_right_taken_from_the_owner_is_gone_from_every_token(world: World) -> None:
    admin = world.credentials["admin"]
    await ask(world.channel, "Access/PutUser", admin, name="ana", rights=NAMES(names=["submit:beta"]))
    who = await ask(world.channel, "Access/WhoAmI", world.credentials["ana"])
    assert "submit:alpha" not in who.scopes


async def test_a_narrow_token_cannot_make_rotate_or_revoke_a_wide_one(world: World) -> None:
    narrow = world.credentials["ana-narrow"]
    for scope in ("submit:alpha", "admin", "job:read:all", "register:*", "agent:alpha"):
        assert await code_of(ask(world.channel, "Access/CreateToken", narrow, scopes=[scope])) == "PERMISSION_DENIED"
    wide = (await ask(world.channel, "Access/WhoAmI", world.credentials["ana"])).token
    assert await code_of(ask(world.channel, "Access/RotateToken", narrow, id=wide)) == "NOT_FOUND"
    assert await code_of(ask(world.channel, "Access/RevokeToken", narrow, id=wide)) == "NOT_FOUND"


async def test_a_token_that_ends_cannot_make_one_that_outlives_it(world: World) -> None:
    short = await made(world, "admin", owner="ana", scopes=["job:read:own"], ttl=60)
    longer = (await ask(world.channel, "Access/CreateToken", short, scopes=["job:read:own"], ttl=86_400)).token
    until = (await ask(world.channel, "Access/WhoAmI", short)).expires_at
    assert longer.expires_at <= until


async def test_a_cluster_group_is_one_name_for_several_clusters_and_follows_its_changes(world: World) -> None:
    admin = world.credentials["admin"]
    await ask(world.channel, "Access/PutGroup", admin, name="pair", clusters=NAMES(names=["alpha"]), create=True)
    token = await made(world, "admin", owner="carol", scopes=["submit:@pair"])
    assert (await ask(world.channel, "Access/WhoAmI", token)).scopes == ["submit:alpha"]
    await ask(world.channel, "Access/PutGroup", admin, name="pair", clusters=NAMES(names=["alpha", "beta"]))
    assert sorted((await ask(world.channel, "Access/WhoAmI", token)).scopes) == ["submit:alpha", "submit:beta"]
    answer = await ask(world.channel, "Jobs/Submit", token, **fields_of(a_submit("beta")))
    assert answer.cluster == "beta"


async def test_a_group_of_users_gives_its_rights_to_its_members(world: World) -> None:
    admin = world.credentials["admin"]
    await ask(world.channel, "Access/PutGroup", admin, name="ops", rights=NAMES(names=["submit:beta"]), create=True)
    token = await made(world, "admin", owner="fellow", scopes=["submit:*"])
    assert list((await ask(world.channel, "Access/WhoAmI", token)).scopes) == []
    await ask(world.channel, "Access/PutUser", admin, name="fellow", groups=NAMES(names=["ops"]))
    assert list((await ask(world.channel, "Access/WhoAmI", token)).scopes) == ["submit:beta"]


async def test_a_revoked_token_is_refused_at_once_and_its_open_streams_are_cut_within_a_second(world: World) -> None:
    token = await made(world, "ana", scopes=["job:read:own"])
    watch = follow(world.channel, "Jobs/Watch", token)
    assert (await watch.read()).seq > 0
    id = (await ask(world.channel, "Access/WhoAmI", token)).token
    began = time.monotonic()
    await ask(world.channel, "Access/RevokeToken", world.credentials["ana"], id=id)
    assert await code_of(ask(world.channel, "Access/WhoAmI", token)) == "UNAUTHENTICATED"
    with pytest.raises(aio.AioRpcError, match="revoked"):
        while await watch.read() is not aio.EOF:
            pass
    assert watch.done()
    assert time.monotonic() - began < 4.0  # a second, and room for a busy machine


async def test_a_token_revoked_by_another_server_on_the_same_database_is_cut_here_too(world: World) -> None:
    token = await made(world, "ana", scopes=["job:read:own"])
    watch = follow(world.channel, "Jobs/Watch", token)
    await watch.read()
    id = (await ask(world.channel, "Access/WhoAmI", token)).token
    core = world.running.service.core

    def elsewhere(tx: Tx) -> None:  # what the other server writes; nobody tells this one
        tx.revoke(id, core.clock.now())
        changed(tx)

    await core.store.write(elsewhere)
    began = time.monotonic()
    with pytest.raises(aio.AioRpcError, match="revoked"):
        while await watch.read() is not aio.EOF:
            pass
    assert time.monotonic() - began < 4.0
    assert await code_of(ask(world.channel, "Access/WhoAmI", token)) == "UNAUTHENTICATED"


async def test_a_token_that_runs_out_ends_the_streams_it_opened(world: World) -> None:
    token = await made(world, "ana", scopes=["job:read:own"], ttl=1.0)
    watch = follow(world.channel, "Jobs/Watch", token)
    with pytest.raises(aio.AioRpcError) as ended:
        while await watch.read() is not aio.EOF:
            pass
    assert ended.value.code().name == "UNAUTHENTICATED"


async def test_a_waiting_sync_is_cut_when_its_cluster_is_deleted(world: World) -> None:
    agent = world.credentials["agent-alpha"]
    first = await ask(world.channel, "Agents/Sync", agent, cluster="alpha", epoch="e", seq=1)
    assert first.resync
    waiting = asyncio.ensure_future(
        code_of(ask(world.channel, "Agents/Sync", agent, cluster="alpha", epoch="e", seq=2, wait=15.0))
    )
    await asyncio.sleep(0)
    began = time.monotonic()
    await ask(world.channel, "Clusters/Delete", world.credentials["admin"], cluster="alpha")
    assert await waiting in ("UNAUTHENTICATED", "NOT_FOUND")
    assert time.monotonic() - began < 4.0


async def test_a_disabled_user_is_refused_everywhere_and_comes_back_when_enabled(world: World) -> None:
    admin, token = world.credentials["admin"], world.credentials["bob"]
    watch = follow(world.channel, "Jobs/Watch", token)
    await watch.read()
    await ask(world.channel, "Access/PutUser", admin, name="bob", disabled=True)
    assert await code_of(ask(world.channel, "Jobs/List", token)) == "UNAUTHENTICATED"
    with pytest.raises(aio.AioRpcError):
        while await watch.read() is not aio.EOF:
            pass
    await ask(world.channel, "Access/PutUser", admin, name="bob", disabled=False)
    assert await code_of(ask(world.channel, "Jobs/List", token)) == "OK"


async def test_an_agents_secret_rotates_with_two_good_ones_during_the_change(world: World) -> None:
    old = world.credentials["agent-alpha"]
    answer = await ask(world.channel, "Access/RotateToken", old, grace=3600.0)
    for secret in (old, answer.text):
        state = {"cluster": "alpha", "values": "{}"}
        assert await code_of(ask(world.channel, "Clusters/UpdateState", secret, **state)) == "OK"
    core = world.running.service.core
    id = (await ask(world.channel, "Access/WhoAmI", old)).token
    stored = await core.store.read(lambda tx: tx.credential(id))
    assert stored is not None
    assert stored.ends_at == pytest.approx(core.clock.now() + 3600, abs=60)

    def over(tx: Tx) -> None:
        end_at(tx, id, core.clock.now() - 1)

    await core.store.write(over)
    core.credential_resolver.forget()
    assert await code_of(ask(world.channel, "Access/WhoAmI", old)) == "UNAUTHENTICATED"
    assert await code_of(ask(world.channel, "Access/WhoAmI", answer.text)) == "OK"


async def test_an_old_secret_in_its_last_hour_cannot_rotate_again_but_can_be_revoked(world: World) -> None:
    old = world.credentials["agent-alpha"]
    await ask(world.channel, "Access/RotateToken", old)
    assert await code_of(ask(world.channel, "Access/RotateToken", old)) == "PERMISSION_DENIED"
    id = (await ask(world.channel, "Access/WhoAmI", old)).token
    await ask(world.channel, "Access/RevokeToken", world.credentials["admin"], id=id)
    assert await code_of(ask(world.channel, "Access/WhoAmI", old)) == "UNAUTHENTICATED"


async def test_a_join_token_admits_one_cluster_with_a_name_it_allows(world: World) -> None:
    world.credentials["registration"] = await made(world, "admin", join=True, scopes=["register:edge-*"])
    with pytest.raises(aio.AioRpcError, match="does not allow register"):
        await register(world, "core-1")
    results = await asyncio.gather(*(register(world, f"edge-{n}") for n in range(4)), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    with pytest.raises(aio.AioRpcError):
        await register(world, "edge-9")
    listed = await ask(world.channel, "Clusters/List", world.credentials["admin"])
    assert sum(cluster.name.startswith("edge-") for cluster in listed.clusters) == 1


async def test_a_taken_name_does_not_use_a_join_token_up(world: World) -> None:
    world.credentials["registration"] = await made(world, "admin", join=True)
    assert (await register(world, "alpha")).exists
    assert (await register(world, "edge")).secret


async def test_a_shared_submit_token_cannot_be_changed_by_one_of_its_holders(world: World) -> None:
    token = world.credentials["submit-alpha"]
    assert await code_of(ask(world.channel, "Access/RotateToken", token)) == "NOT_FOUND"
    id = (await ask(world.channel, "Access/WhoAmI", token)).token
    assert await code_of(ask(world.channel, "Access/RevokeToken", token, id=id)) == "NOT_FOUND"


async def test_the_last_use_of_a_token_is_stored_when_the_server_stops(world: World) -> None:
    await world.running.admission.monitor.flush(all=True)  # for 30 s after this, uses are not stored by themselves
    new = await made(world, "bob")
    id = (await ask(world.channel, "Access/WhoAmI", new)).token
    await world.running.admission.stop()
    listed = await ask(world.channel, "Access/ListTokens", world.credentials["bob"])
    assert [token.HasField("used_at") for token in listed.tokens if token.id == id] == [True]


async def test_an_administrator_cannot_lock_themselves_out(world: World) -> None:
    admin = world.credentials["admin"]
    assert await code_of(ask(world.channel, "Access/PutUser", admin, name="admin", disabled=True)) == "INVALID_ARGUMENT"
    narrowed = {"name": "admin", "rights": NAMES(names=["submit:*"])}
    assert await code_of(ask(world.channel, "Access/PutUser", admin, **narrowed)) == "INVALID_ARGUMENT"


def fields_of(message: object) -> dict[str, object]:
    """The fields of a message, to be given to `ask`."""
    return {field.name: value for field, value in message.ListFields()}  # type: ignore[attr-defined]

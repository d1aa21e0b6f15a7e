"""Credentials end when they are told to, and the audit log shows when it was touched."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace

import pytest

from rainbow_sched.model.credential import Credential, CredentialKind, digest
from rainbow_sched.model.errors import AlreadyExists
from rainbow_sched.store import Store
from rainbow_sched.store.base import Account, ClusterGroup, Tx
from rainbow_sched.store.tables.access import _line, _link


def a_credential(id: str = "abcdefghijkl", **said: object) -> Credential:
    known = {"kind": CredentialKind.USER, "digest": digest("secret"), "owner": "user:ana", "scopes": ("job:read:own",)}
    return Credential(**{"id": id, "created_at": 1.0, **known, **said})  # type: ignore[arg-type]


async def test_a_credential_comes_back_as_it_was(store: Store) -> None:
    full = a_credential(expires_at=9.5, revoked_at=8.0, used_at=7.0, uses_left=2, note="laptop")
    await store.write(lambda tx: tx.add_credential(full))
    assert await store.read(lambda tx: tx.credential(full.id)) == full
    assert await store.read(lambda tx: tx.credential("ABCDEFGHIJKL")) is None
    with pytest.raises(AlreadyExists):
        await store.write(lambda tx: tx.add_credential(a_credential(owner="user:eve")))


async def test_credentials_are_listed_by_owner_and_kind(store: Store) -> None:
    ana, agent, bob = (
        a_credential("a"),
        a_credential("b", kind=CredentialKind.AGENT),
        a_credential("c", owner="user:bob"),
    )
    await store.write(lambda tx: [tx.add_credential(c) for c in (ana, agent, bob)])
    assert await store.read(lambda tx: tx.credentials()) == [ana, agent, bob]
    assert await store.read(lambda tx: tx.credentials("user:ana")) == [ana, agent]
    assert await store.read(lambda tx: tx.credentials("user:ana", CredentialKind.AGENT)) == [agent]
    assert await store.read(lambda tx: tx.credentials(kind=CredentialKind.USER)) == [ana, bob]


async def test_revoking_ends_one_or_all_of_an_owner_and_keeps_the_first_time(store: Store) -> None:
    ana, agent, bob = (
        a_credential("a"),
        a_credential("b", kind=CredentialKind.AGENT),
        a_credential("c", owner="user:bob"),
    )
    await store.write(lambda tx: [tx.add_credential(c) for c in (ana, agent, bob)])
    assert await store.write(lambda tx: tx.revoke("a", 2.0))
    assert not await store.write(lambda tx: tx.revoke("a", 3.0))
    assert not await store.write(lambda tx: tx.revoke("z", 3.0))
    assert await store.write(lambda tx: tx.revoke_of("user:ana", 4.0)) == 1
    assert await store.read(lambda tx: tx.credentials()) == [
        replace(ana, revoked_at=2.0),
        replace(agent, revoked_at=4.0),
        bob,
    ]


async def test_a_credential_with_one_use_is_spent_once_even_by_many_at_once(store: Store) -> None:
    await store.write(lambda tx: tx.add_credential(a_credential("once", uses_left=1)))
    await store.write(lambda tx: tx.add_credential(a_credential("ever")))
    spent = await asyncio.gather(*[store.write(lambda tx: tx.spend_credential("once")) for _ in range(20)])
    assert spent.count(True) == 1
    assert await store.write(lambda tx: tx.spend_credential("ever"))
    await store.write(lambda tx: tx.touch_credential("ever", 5.0))
    ever = await store.read(lambda tx: tx.credential("ever"))
    assert ever is not None
    assert (ever.used_at, ever.uses_left) == (5.0, None)
    await store.write(lambda tx: tx.revoke("ever", 6.0))
    assert not await store.write(lambda tx: tx.spend_credential("ever"))


async def test_users_and_groups_are_made_and_changed(store: Store) -> None:
    await store.write(lambda tx: tx.put_user("bob", 1.0))
    await store.write(lambda tx: tx.put_user("ana", 2.0, groups=("bio", "ops")))
    changed = await store.write(lambda tx: tx.put_user("ana", 3.0, groups=("bio",), rights=("admin",), disabled=True))
    assert changed == Account(name="ana", groups=("bio",), rights=("admin",), disabled=True, created_at=2.0)
    assert await store.read(lambda tx: tx.user("ana")) == changed
    assert await store.read(lambda tx: tx.user("eve")) is None
    assert [user.name for user in await store.read(lambda tx: tx.users())] == ["ana", "bob"]
    await store.write(lambda tx: [tx.put_group("west", ("b",)), tx.put_group("east", ())])
    west = await store.write(lambda tx: tx.put_group("west", ("c",), ("submit:*",)))
    east = ClusterGroup("east", ())
    assert await store.read(lambda tx: tx.groups()) == [east, west]
    assert west == ClusterGroup("west", ("c",), ("submit:*",))
    assert await store.read(lambda tx: tx.groups({"west", "none"})) == [west]
    assert await store.read(lambda tx: tx.groups([])) == []


async def test_a_replaced_credential_ends_once_and_its_successors_can_be_revoked(store: Store) -> None:
    agent = {"owner": "cluster:c", "kind": CredentialKind.AGENT}
    old, other = a_credential("old", expires_at=90.0, **agent), a_credential("other", replaces="old")
    given_up, new = (a_credential(id, replaces="old", **agent) for id in ("given-up", "new"))
    await store.write(lambda tx: [tx.add_credential(one) for one in (old, other, given_up)])
    await store.write(lambda tx: [tx.revoke_successors(old, 3.0), tx.add_credential(new)])
    await store.write(lambda tx: [tx.end_credential("old", 50.0), tx.end_credential("old", 70.0)])
    await store.write(lambda tx: tx.ask_renewal("cluster:c"))
    found = {one.id: one for one in await store.read(lambda tx: tx.credentials())}
    assert found == {
        "old": replace(old, ends_at=50.0, renewal_asked=True),
        "other": other,
        "given-up": replace(given_up, revoked_at=3.0),
        "new": replace(new, renewal_asked=True),
    }
    assert [found["old"].until, found["old"].usable(49.0), found["old"].usable(50.0)] == [50.0, True, False]
    assert found["old"].live(60.0), "it can still be revoked"


def an_audit_line(tx: Tx, verb: str, actor: str = "user:ana") -> int:
    return tx.append_audit(1.5, actor, "cred", "127.0.0.1", verb, "job 1", "ok", '{"é": "\u202e"}')


async def test_audit_lines_are_numbered_filtered_and_chained(store: Store) -> None:
    await store.write(lambda tx: [an_audit_line(tx, verb) for verb in ("submit", "cancel")])
    assert await store.write(lambda tx: an_audit_line(tx, "cancel", "user:eve")) == 3
    lines = await store.read(lambda tx: tx.audit(0, 10))
    assert [(line.seq, line.actor, line.verb) for line in lines] == [
        (1, "user:ana", "submit"),
        (2, "user:ana", "cancel"),
        (3, "user:eve", "cancel"),
    ]
    assert [x.seq for x in await store.read(lambda tx: tx.audit(1, 10, verb="cancel", actor="user:ana"))] == [2]
    assert await store.read(lambda tx: tx.audit(1, 1)) == lines[1:2]
    assert await store.read(lambda tx: tx.verify_audit()) is None


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("UPDATE audit SET actor = 'user:eve' WHERE seq = 2", 2),
        ("UPDATE audit SET at = at + 1 WHERE seq = 3", 3),
        ("DELETE FROM audit WHERE seq = 2", 2),
        ("DELETE FROM audit WHERE seq = 4", 4),
        ("DELETE FROM audit", 1),
    ],
)
async def test_whatever_is_changed_or_cut_from_the_audit_log_is_noticed(store: Store, change: str, broken: int) -> None:
    await store.write(lambda tx: [an_audit_line(tx, verb) for verb in "abcd"])
    await store.write(lambda tx: tx.db.run(change))
    assert await store.read(lambda tx: tx.verify_audit()) == broken


async def test_a_line_that_is_rewritten_with_a_fitting_digest_breaks_the_next_one(store: Store) -> None:
    await store.write(lambda tx: [an_audit_line(tx, verb) for verb in "abc"])
    first, second, _ = await store.read(lambda tx: tx.audit(0, 3))
    forged = replace(second, actor="user:eve")
    fitting = _link(first.digest, _line(forged))

    def forge(tx: Tx) -> None:
        tx.db.run("DELETE FROM audit WHERE seq = 2")  # type: ignore[attr-defined]
        tx.db.change("add_audit", **{**asdict(forged), "digest": fitting})  # type: ignore[attr-defined]

    await store.write(forge)
    assert await store.read(lambda tx: tx.verify_audit()) == 3

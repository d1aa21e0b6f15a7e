"""The audit log: each change and each refusal has its line, nothing else has, and touching it shows."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.model.errors import AlreadyExists
from rainbow_sched.pb.v2 import access_pb2, jobs_pb2
from rainbow_sched.service.access.audit import MAX_LINES_PER_ADDRESS, RefusedCall, RefusedCallCounter
from rainbow_sched.store.base import AuditRow, Tx
from tests.unit.access.calls import ask, code_of
from tests.unit.access.test_tokens import fields_of
from tests.unit.access.world import World, a_submit, a_world

NAMES = access_pb2.Names


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A populated server."""
    async with a_world(tmp_path / "world") as made:
        yield made


async def lines(world: World, **equal: str) -> list[AuditRow]:
    """The log as it is, refusals included."""
    await world.running.admission.monitor.flush()
    return await world.running.service.core.store.read(lambda tx: tx.audit(0, 10_000, **equal))


async def test_every_change_has_one_line_with_who_and_from_where(world: World) -> None:
    admin, agent = world.credentials["admin"], world.credentials["agent-alpha"]
    before = len(await lines(world))
    changes: list[tuple[str, str, dict[str, object], str]] = [
        ("Access/PutUser", admin, {"name": "ines", "create": True}, "user.add"),
        ("Access/PutUser", admin, {"name": "ines", "disabled": True}, "user.change"),
        ("Access/PutGroup", admin, {"name": "ops", "create": True}, "group.add"),
        ("Access/CreateToken", admin, {"scopes": ["submit:alpha"]}, "token.create"),
        ("Access/RevokeToken", admin, {"id": world.tokens["other"]}, "token.revoke"),
        ("Access/RotateToken", agent, {}, "token.rotate"),
        ("Clusters/UpdateState", agent, {"cluster": "alpha", "values": '{"a": 1}'}, "cluster.state"),
        ("Clusters/PatchGraph", agent, {"cluster": "alpha", "marks": {"n0": "down"}}, "cluster.patch"),
        ("Clusters/Drain", agent, {"cluster": "alpha", "reason": "dust"}, "cluster.standing"),
        ("Clusters/Undrain", agent, {"cluster": "alpha"}, "cluster.standing"),
        ("Clusters/DeleteSubsystem", agent, {"cluster": "alpha", "subsystem": "io"}, "cluster.delete-subsystem"),
        ("Jobs/Submit", admin, fields_of(a_submit("alpha")), "job.submit"),
        ("Jobs/Cancel", admin, {"ids": [world.jobs["own"]]}, "job.cancel"),
        ("Clusters/Delete", admin, {"cluster": "alpha"}, "cluster.delete"),
    ]
    for path, token, fields, _ in changes:
        await ask(world.channel, path, token, **fields)
    new = (await lines(world))[before:]
    assert [line.verb for line in new] == [verb for *_, verb in changes]
    assert {line.address for line in new} == {"127.0.0.1"}
    assert {line.actor for line in new} == {"admin", "cluster:alpha"}
    assert all(line.credential and line.outcome == "done" for line in new)
    assert await world.running.service.core.store.read(lambda tx: tx.verify_audit()) is None


async def test_reading_and_failing_leave_no_line_of_a_change(world: World) -> None:
    admin = world.credentials["admin"]
    before = len(await lines(world))
    for path, fields in {
        "Jobs/List": {},
        "Clusters/List": {},
        "Access/PutUser": {"name": "nobody-here"},
        "Clusters/DeleteSubsystem": {"cluster": "alpha", "subsystem": "none"},
        "Jobs/Cancel": {"ids": [world.jobs["own"]], "dry_run": True},
    }.items():
        await code_of(ask(world.channel, path, admin, **fields))
    assert len(await lines(world)) == before


async def test_a_write_that_fails_takes_its_line_with_it(world: World) -> None:
    store = world.running.service.core.store
    before = len(await lines(world))

    def work(tx: Tx) -> None:
        tx.append_audit(0.0, "a", "", "", "v", "o", "done", "")
        raise AlreadyExists("no")

    with pytest.raises(AlreadyExists):
        await store.write(work)
    assert len(await lines(world)) == before


async def test_many_submissions_share_few_lines_that_name_every_job(world: World) -> None:
    ana = world.credentials["ana"]
    jobs = jobs_pb2.SubmitBatchRequest(jobs=[a_submit("alpha") for _ in range(200)])
    answer = await ask(world.channel, "Jobs/SubmitBatch", ana, jobs=list(jobs.jobs))
    singles = await asyncio.gather(
        *(ask(world.channel, "Jobs/Submit", ana, **fields_of(a_submit("alpha"))) for _ in range(50))
    )
    named: set[int] = set()
    found = await lines(world, verb="job.submit", actor="ana")
    for line in found:
        for part in line.object.split(","):
            first, _, last = part.partition("-")
            named |= set(range(int(first), int(last or first) + 1))
    assert {job.id for job in (*answer.jobs, *singles)} <= named
    assert len(found) < 50


async def test_refusals_are_written_with_the_call_and_what_it_was_about(world: World) -> None:
    bob = world.credentials["bob"]
    for _ in range(3):
        await code_of(ask(world.channel, "Clusters/Delete", bob, cluster="alpha"))
    await code_of(ask(world.channel, "Jobs/List", "guess"))
    denied = await lines(world, outcome="denied")
    assert [(line.actor, line.verb, line.object, line.detail) for line in denied] == [
        ("bob", "/rainbow.v2.Clusters/Delete", "alpha", "3 times")
    ]
    unknown = await lines(world, outcome="unauthenticated")
    assert [(line.actor, line.address) for line in unknown] == [("anonymous", "127.0.0.1")]


async def test_a_changed_a_missing_and_a_cut_off_line_are_found(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        count = len(await lines(world))
        admin = world.credentials["admin"]
        assert (await ask(world.channel, "Access/ReadAudit", admin, verify=True)).verified
        for statement, at in (
            ("UPDATE audit SET actor = 'nobody' WHERE seq = 3", 3),
            ("DELETE FROM audit WHERE seq = 2", 2),
            (f"DELETE FROM audit WHERE seq >= {count}", 2),
        ):
            with sqlite3.connect(tmp_path / "world/rainbow.db") as direct:
                direct.execute(statement)
            direct.close()
            answer = await ask(world.channel, "Access/ReadAudit", admin, verify=True)
            assert not answer.verified
            assert answer.broken_at == at


def test_a_flood_of_refusals_becomes_a_few_lines_and_none_is_lost() -> None:
    rng, refusals = Random(5), RefusedCallCounter()
    for n in range(5_000):
        address = "10.0.0.1" if rng.random() < 0.9 else "10.0.0.2"
        refusals.add(RefusedCall(address, "anonymous", "", f"/x/{n % 100}", "", "unauthenticated"))
    taken = refusals.take()
    per_address = Counter(refusal.address for refusal, _ in taken)
    assert sum(times for _, times in taken) == 5_000
    assert max(per_address.values()) <= MAX_LINES_PER_ADDRESS + 1
    assert refusals.take() == []

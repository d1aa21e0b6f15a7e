"""Rights, rotations, renewals and unsettled dependents of a database of 4292f3f mean the same in their own columns.

The old program makes the database and says what it makes of each credential; today's program must say the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rainbow_sched.model.credential import CredentialKind, Principal, digest, id_of
from rainbow_sched.model.errors import Denied, Unauthenticated
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.access import accounts, renewal
from rainbow_sched.service.access.audit import act_as
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.store import open_store
from rainbow_sched.store.backup import back_up
from rainbow_sched.store.base import JobSelection
from tests.support.manual_clock import ManualClock
from tests.support.old_program import old_source

SCRIPT = Path(__file__).with_name("old_access.py")
TIMES = (0.0, 30.0, 61.0, 601.0, 4_000.0, 40 * 86_400.0)
DEPENDENTS = 1_100
ADMIN = Principal(name="admin", kind=CredentialKind.ADMIN, scopes=frozenset({"admin"}))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_source(tmp_path_factory.mktemp("old"))


@pytest.fixture
def old(url: str, source: Path) -> dict[str, Any]:
    """What the old program said about the database that it made at `url`."""
    made = subprocess.run(
        [sys.executable, str(SCRIPT), url], env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    said: dict[str, Any] = json.loads(made.stdout)
    return said


async def opened(url: str, now: float) -> Service:
    store = await open_store(url)
    return await assemble(store, Settings(policy="first"), ManualClock(now), Ids(Random(2)), "a secret")


async def said(service: Service, text: str, now: float) -> list[Any] | None:
    service.core.credential_resolver.forget()
    try:
        who = await service.core.credential_resolver.resolve(text, now)
    except Unauthenticated:
        return None
    assert who.kind is not None
    lists = [sorted(who.scopes), sorted(who.groups), sorted(who.group_members)]
    return [who.name, who.kind.value, who.credential, *lists, who.until, who.renew]


async def held(service: Service) -> int:
    return (await service.core.store.read(lambda tx: tx.count_jobs(JobSelection()))).get(JobState.HELD, 0)


async def test_an_old_database_means_the_same_and_so_does_its_backup(
    url: str, old: dict[str, Any], tmp_path: Path
) -> None:
    copy = tmp_path / "backup.db"
    for address in (url, f"sqlite:///{copy}"):
        service = await opened(address, old["now"])
        try:
            for who, answers in old["principals"].items():
                found = [await said(service, old["texts"][who], old["now"] + seconds) for seconds in TIMES]
                assert found == answers, who
        finally:
            await service.stop()
        if address == url:
            back_up(url, copy)
    assert len({json.dumps(answers) for answers in old["principals"].values()}) > 10, "the cases are all alike"


async def test_dependents_that_the_old_program_left_over_are_settled(url: str, old: dict[str, Any]) -> None:
    assert old["held"] > DEPENDENTS // 3
    service = await opened(url, old["now"])
    try:
        assert await held(service) == old["held"]
        await service.core.settle_remaining()
        assert await held(service) == 1 + 3, "a job on hold and those that wait for it"
        assert await service.core.store.write(lambda tx: tx.take_unsettled()) == []
    finally:
        await service.stop()


async def test_a_rotation_in_progress_goes_on(url: str, old: dict[str, Any]) -> None:
    texts, now = old["texts"], old["now"]
    service = await opened(url, now)
    core = service.core
    act_as(ADMIN, "")
    try:
        with pytest.raises(Denied, match="rotated already"):
            await accounts.rotate(core, ADMIN, id_of(texts["bob"]) or "", 0.0)
        successor = await core.credential_resolver.resolve(texts["alpha-b"], now)
        await renewal.renew(core, successor, successor.credential, digest(texts["alpha-b"]))
        old_secret = await said(service, texts["agent-alpha"], now)
        assert old_secret is not None
        assert old_secret[-2] == now + renewal.GRACE_SECONDS
        assert await said(service, texts["agent-alpha"], now + renewal.GRACE_SECONDS) is None
        assert await said(service, texts["alpha-a"], now) is None, "it was given up"
        gamma = await core.credential_resolver.resolve(texts["agent-gamma"], now)
        assert gamma.renew
        await renewal.renew(core, gamma, "dddddddddddd", digest("rbw_agt_dddddddddddd_" + "d" * 43))
        new = await said(service, "rbw_agt_dddddddddddd_" + "d" * 43, now)
        assert new is not None
        assert new[-1] is False
        keys = await core.store.read(lambda tx: tx.db.rows_of("SELECT key FROM meta", {}))  # type: ignore[attr-defined]
        assert {key.partition(".")[0] for (key,) in keys} <= {"access", "mark"}
    finally:
        await service.stop()

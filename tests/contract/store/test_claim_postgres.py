"""The claim on PostgreSQL: sessions that break or stand still, tools beside the server, an older server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store import claim as claims
from rainbow_sched.store import open_store
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Claim, Claimant, ClaimTaken, check_claim, renew_claim, take_claim, take_over
from rainbow_sched.store.factory import open_claimed
from rainbow_sched.store.postgres import DIALECT as POSTGRES
from rainbow_sched.store.postgres import _end_sessions, _session_name
from rainbow_sched.store.schema import migrate
from tests.contract.store.claiming import ELSEWHERE, HERE, a_session, a_submit, row_of, sessions, stored
from tests.support.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def fragile() -> Iterator[Postgres]:
    """A server of its own, since it is crashed."""
    with running_postgres() as server:
        yield server


async def test_a_claim_is_renewed_while_a_long_write_is_under_way(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite nobody else can write meanwhile, so nobody can take the claim."""
    monkeypatch.setattr(claims, "RENEW_SECONDS", 0.05)
    url = postgres.new_database()
    store, _ = await open_claimed(url)
    renewals: list[int] = []

    def work(tx: Tx) -> None:
        with sessions(url) as [session]:
            first = row_of(session).renewals
            while not renewals or renewals[-1] < first + 3:
                renewals.append(row_of(session).renewals)

    async with asyncio.timeout(20):
        await store.write(work)
    await store.close()


def test_a_takeover_on_postgresql_waits_for_the_row_and_not_only_for_the_advisory_lock(postgres: Postgres) -> None:
    one = Claimant("one", ELSEWHERE)
    with sessions(postgres.new_database(), 3, new=True) as [writing, renewing, taking]:
        assert take_claim(writing, one, wait=0.0) == 1
        writing.run("BEGIN")
        assert check_claim(writing, one, 1)
        assert renew_claim(renewing, one, 1)  # does not wait for the write
        terms: list[int | None] = []
        taker = threading.Thread(target=lambda: terms.append(take_over(taking, row_of(taking), Claimant("two", HERE))))
        taker.start()
        taker.join(0.5)
        assert taker.is_alive()
        writing.change("set_meta", key="a", value="in time")
        writing.commit()
        taker.join(20)
        assert terms == [2]
        writing.run("BEGIN")
        assert not check_claim(writing, one, 1)
        writing.rollback()


async def test_tools_write_beside_the_server_of_a_postgresql(postgres: Postgres) -> None:
    url = postgres.new_database()
    server, _ = await open_claimed(url)
    tool = await open_store(url)
    await tool.write(lambda tx: tx.set_meta("a", "b"))
    assert await server.read(lambda tx: tx.meta("a")) == "b"
    await server.write(a_submit("mine"))
    for store in (tool, server):
        await store.close()


async def test_the_claim_survives_a_restart_of_postgresql_that_nobody_used(fragile: Postgres) -> None:
    url = fragile.new_database()
    store, claim = await open_claimed(url)
    for n in range(2):
        await store.write(a_submit(f"{n}"))
        await asyncio.to_thread(fragile.crash)
        await asyncio.to_thread(fragile.start)
    await store.write(a_submit("last"))
    with sessions(url) as [session]:
        before = row_of(session)
        assert (before.term, before.instance) == (claim.term, claim.claimant.instance) == (1, before.instance)
        async with asyncio.timeout(20):
            while row_of(session).renewals == before.renewals:
                await asyncio.to_thread(claim._stop.wait, 0.05)
    assert await store.read(lambda tx: tx.last_seq()) == 3
    await store.close()
    assert await stored(url) == ["0", "1", "last"]


async def test_while_postgresql_is_away_longer_than_a_lease_calls_wait_and_are_told_why(
    fragile: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "CONFIRM_SECONDS", 0.3)
    store, claim = await open_claimed(fragile.new_database())
    await asyncio.to_thread(fragile.crash)
    claim._confirmed_at -= 2 * claims.LEASE_SECONDS
    with pytest.raises(Unavailable, match=r"cannot ask its database.*PostgreSQL.*try again later"):
        await store.read(lambda tx: tx.last_seq())
    await asyncio.to_thread(fragile.start)
    monkeypatch.setattr(claims, "CONFIRM_SECONDS", 20.0)
    assert await store.read(lambda tx: tx.last_seq()) == 0
    await store.write(a_submit("after"))
    await store.close()


def test_a_write_that_stands_still_is_ended_by_the_takeover(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server does that is frozen in the middle of a long batch: no timeout of PostgreSQL frees its locks."""
    monkeypatch.setattr(claims, "LEASE_SECONDS", 1.0)
    url = postgres.new_database()
    one, two = Claimant("one", ELSEWHERE), Claimant("two", HERE)
    with sessions(url, new=True) as [session]:
        frozen = a_session(url, name=_session_name(one.instance))
        assert take_claim(frozen, one, wait=0.0) == 1
        claim = Claim(one, 1, lambda: frozen, 0.0, name="PostgreSQL")
        frozen.guard = claim.check
        frozen.begin()
        frozen.change("set_meta", key="a", value="never")
        assert take_claim(session, two, wait=20.0, evict=_end_sessions) == 2
        with pytest.raises(Exception) as lost:  # the driver's own
            frozen.commit()
        assert isinstance(POSTGRES.translate(lost.value), Unavailable)
        assert session.row("meta", key="a") is None
        frozen.close()


async def test_a_database_is_not_upgraded_under_a_server_that_knows_no_claim(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "WAIT_SECONDS", 0.5)
    url = postgres.new_database()
    older = a_session(url)
    migrate(older, upto=claims.FIRST_CLAIM_SCHEMA - 1)
    with pytest.raises(ClaimTaken, match=r"an older Rainbow is connected to this database \(from 127.0.0.1, since 20"):
        await open_claimed(url)
    assert migrate(older, upto=0) == claims.FIRST_CLAIM_SCHEMA - 1
    older.close()
    monkeypatch.setattr(claims, "WAIT_SECONDS", 20.0)
    store, _ = await open_claimed(url)
    await store.close()

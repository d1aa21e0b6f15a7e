"""One server serves a database: who holds the claim, how it is taken over, and that who was replaced writes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rainbow_sched.store import claim as claims
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Claimant, ClaimTaken, Replaced, renew_claim, take_claim, take_over
from rainbow_sched.store.factory import open_claimed
from tests.contract.store.builders import a_draft
from tests.contract.store.claiming import ELSEWHERE, HERE, a_submit, row_of, sessions, steal, stored
from tests.support.postgres import Postgres


async def test_the_row_names_the_server_and_the_term_only_grows(url: str) -> None:
    for term in (1, 2, 3):
        store, claim = await open_claimed(url)
        with sessions(url) as [session]:
            row = row_of(session)
        assert (row.term, row.instance, row.identity) == (term, claim.claimant.instance, HERE)
        assert row.identity.host == socket.gethostname()
        assert row.identity.process == os.getpid()
        assert 0 < row.expires_at - row.now <= claims.LEASE_SECONDS
        assert abs(row.since - row.now) < 30
        await store.close()
        with sessions(url) as [session]:
            assert row_of(session).lapsed  # at once: the next server is not made to wait


async def test_a_claim_that_is_renewed_is_not_taken_and_the_holder_is_named(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "WAIT_SECONDS", 0.5)
    store, _ = await open_claimed(url)
    with pytest.raises(ClaimTaken) as refused:
        await open_claimed(url)
    for word in (socket.gethostname(), f"process {os.getpid()}", "since 20", "stop that server first", "--db"):
        assert word in str(refused.value)
    await store.write(a_submit("first"))
    await store.close()
    second, claim = await open_claimed(url)
    assert claim.term == 2
    await second.close()


def test_a_claim_that_is_not_renewed_lapses_by_the_databases_clock(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sessions(url, new=True) as [session]:
        monkeypatch.setattr(claims, "LEASE_SECONDS", 0.3)
        assert take_claim(session, Claimant("one", ELSEWHERE), wait=0.0) == 1
        monkeypatch.setattr(claims, "LEASE_SECONDS", 60.0)  # also of what the second has seen unchanged
        assert take_claim(session, Claimant("two", HERE), wait=20.0) == 2
        assert not row_of(session).lapsed


def test_a_claim_lapses_also_if_the_databases_clock_was_set_back(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with sessions(url, new=True) as [session]:
        take_claim(session, Claimant("one", ELSEWHERE), wait=0.0)
        session.rows_of("UPDATE claims SET expires_at = expires_at + 3600 RETURNING term", {})
        monkeypatch.setattr(claims, "LEASE_SECONDS", 0.5)
        assert take_claim(session, Claimant("two", HERE), wait=20.0) == 2


@pytest.mark.parametrize("locked", [False, True])
def test_a_renewed_claim_of_another_machine_is_respected_whatever_the_lock_of_the_file_says(
    url: str, locked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system whose locks do not reach the other machine."""
    monkeypatch.setattr(claims, "LEASE_SECONDS", 1.0)
    with sessions(url, 2, new=True) as [mine, theirs]:
        one = Claimant("one", ELSEWHERE)
        take_claim(theirs, one, wait=0.0)
        over = threading.Event()

        def renew() -> None:
            while not over.wait(0.1):
                assert renew_claim(theirs, one, 1)

        renewing = threading.Thread(target=renew)
        renewing.start()
        try:
            with pytest.raises(ClaimTaken, match=r"the server on other-host \(process 4711, since"):
                take_claim(mine, Claimant("two", HERE), wait=2.0, locked=locked)
        finally:
            over.set()
            renewing.join()


def test_of_a_process_that_was_killed_on_this_machine_nobody_waits_for_the_claim(url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
        there = replace(HERE, process=child.pid, process_start=start)
        with sessions(url, new=True) as [session]:
            assert take_claim(session, Claimant("one", there), wait=0.0) == 1
            with pytest.raises(ClaimTaken):
                take_claim(session, Claimant("two", HERE), wait=0.0)
            child.send_signal(signal.SIGKILL)
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet buried
            assert take_claim(session, Claimant("two", HERE), wait=0.0) == 2
            child.wait()
            again = replace(there, process=os.getpid())  # its number was given again
            assert again.has_ended()
            assert not replace(again, pid_space="another container").has_ended()
            assert not HERE.has_ended()


@pytest.mark.parametrize("brief", [False, True])
async def test_a_server_that_was_replaced_writes_and_reads_nothing(url: str, brief: bool) -> None:
    store, claim = await open_claimed(url)
    await store.write(a_submit("mine"))
    assert steal(url) == 2
    told = []
    for _ in range(3):
        with pytest.raises(Replaced) as refused:
            await store.write(a_submit("late"), brief=brief)
        told.append(str(refused.value))
    assert "this server was replaced: the server on other-host (process 4711, since" in told[0]
    assert "use the other server" in told[0]
    with pytest.raises(Replaced):
        await store.read(lambda tx: tx.last_seq())
    async with asyncio.timeout(20):
        assert str(await claim.wait_replaced()) == told[0]
    assert not claim.is_confirmed()
    await store.close()
    assert await stored(url) == ["mine"]
    with sessions(url) as [session]:
        assert row_of(session).instance == "thief"
        assert not row_of(session).lapsed  # the one that was replaced has not released the claim of the other


async def test_writes_that_wait_together_are_all_refused_by_a_server_that_was_replaced(url: str) -> None:
    store, _ = await open_claimed(url)
    steal(url)
    told = await asyncio.gather(*[store.write(a_submit("late")) for _ in range(20)], return_exceptions=True)
    assert {type(one) for one in told} == {Replaced}
    await store.close()
    assert await stored(url) == []


async def test_a_replaced_server_notices_it_at_the_next_renewal(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RENEW_SECONDS", 0.1)
    store, claim = await open_claimed(url)
    steal(url)
    async with asyncio.timeout(20):
        await claim.wait_replaced()
    with pytest.raises(Replaced):
        await store.read(lambda tx: tx.last_seq())
    await store.close()


async def test_a_takeover_waits_for_a_write_that_has_checked_the_claim(url: str) -> None:
    """The write is stored before the takeover, and the next write is refused; never the other way round."""
    store, _ = await open_claimed(url)
    terms: list[int] = []
    taking = threading.Thread(target=lambda: terms.append(steal(url)))

    def work(tx: Tx) -> None:
        taking.start()
        taking.join(0.5)
        assert taking.is_alive()  # it waits
        with sessions(url) as [session]:
            assert row_of(session).instance != "thief"
        tx.add_jobs([a_draft(name="in time")])

    await store.write(work)
    await asyncio.to_thread(taking.join, 20)
    assert terms == [2]
    with pytest.raises(Replaced):
        await store.write(a_submit("late"))
    await store.close()
    assert await stored(url) == ["in time"]


async def test_two_that_want_a_lapsed_claim_do_not_both_get_it(url: str) -> None:
    with sessions(url, 2, new=True) as [one, two]:
        take_claim(one, Claimant("gone", ELSEWHERE), wait=0.0)
        seen = row_of(one)
        assert take_over(one, seen, Claimant("one", HERE)) == 2
        assert take_over(two, seen, Claimant("two", HERE)) is None
        assert row_of(two).instance == "one"


async def test_a_claim_renewed_at_the_last_moment_is_not_taken(url: str) -> None:
    with sessions(url, new=True) as [session]:
        late = Claimant("late", ELSEWHERE)
        take_claim(session, late, wait=0.0)
        seen = row_of(session)
        assert renew_claim(session, late, 1)
        assert take_over(session, seen, Claimant("two", HERE)) is None


async def test_what_was_not_confirmed_for_a_lease_is_asked_before_anything_is_answered(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a freeze: the process knows nothing yet, and time has passed."""
    monkeypatch.setattr(claims, "RENEW_SECONDS", 600.0)
    store, claim = await open_claimed(url)
    await store.read(lambda tx: tx.last_seq())
    await store.write(lambda tx: None)
    claim._confirmed_at -= 2 * claims.LEASE_SECONDS
    assert not claim.is_confirmed()
    assert await store.read(lambda tx: tx.last_seq()) == 0  # it was asked, and the claim is still here
    assert claim.is_confirmed()
    claim._confirmed_at -= 2 * claims.LEASE_SECONDS
    steal(url)
    with pytest.raises(Replaced):
        await store.read(lambda tx: tx.last_seq())
    await store.close()


async def test_a_database_that_was_emptied_under_a_server_is_written_no_more(url: str) -> None:
    store, _ = await open_claimed(url)
    with sessions(url) as [session]:
        session.rows_of("DELETE FROM claims RETURNING term", {})
    with pytest.raises(Replaced, match=r"was emptied or restored to an older copy while the server ran.*restart it"):
        await store.write(a_submit("late"))
    await store.close()
    assert await stored(url) == []


async def test_a_postgres_that_was_put_back_under_a_server_is_written_no_more(postgres: Postgres) -> None:
    """The claim is in the older copy, too: what tells them apart is what was stored since."""
    url = postgres.new_database()
    store, _ = await open_claimed(url)
    await store.write(a_submit("first"))
    with sessions(url) as [session]:
        session.rows_of("UPDATE counters SET value = value - 1 WHERE name = 'event' RETURNING 1", {})
    with pytest.raises(Replaced, match="restored to an older copy"):
        await store.write(a_submit("late"))
    await store.close()


async def test_a_second_server_waits_for_one_that_is_being_stopped(url: str, caplog: pytest.LogCaptureFixture) -> None:
    first, _ = await open_claimed(url)
    starting = asyncio.create_task(open_claimed(url))
    async with asyncio.timeout(20):
        while "waiting up to 10 s for it to stop" not in caplog.text:
            await asyncio.sleep(0.01)
        await first.close()
        second, claim = await starting
    assert claim.term == 2
    await second.close()

"""Helpers of the tests of the claim: other processes' connections, and a server that takes the claim over."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Claimant, ClaimRow, read_claim, take_over
from rainbow_sched.store.postgres import _connect as connect_postgres
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.schema import migrate
from rainbow_sched.store.session import Session
from rainbow_sched.store.sqlite import _connect as connect_sqlite
from tests.contract.store.builders import a_draft

HERE = ProcessIdentity.here()
ELSEWHERE = replace(HERE, host="other-host", boot="another boot", process=4711)  # of which nothing is known here


def a_session(url: str, *, name: str = "rainbow") -> Session:
    """A connection of another process, without a lock on the file."""
    if url.startswith("postgresql"):
        return connect_postgres(url, writing=True, name=name)
    return connect_sqlite(Path(url.removeprefix("sqlite:///")), writing=True)


@contextlib.contextmanager
def sessions(url: str, count: int = 1, *, new: bool = False) -> Iterator[list[Session]]:
    """Connections to a database; a new one is brought to today's schema."""
    opened = [a_session(url) for _ in range(count)]
    try:
        if new:
            migrate(opened[0])
        yield opened
    finally:
        for session in opened:
            session.close()


def row_of(session: Session) -> ClaimRow:
    row = read_claim(session)
    assert row is not None
    return row


async def stored(url: str) -> list[str]:
    """The names of all jobs, as a tool reads them that holds no claim."""
    with sessions(url) as [session]:
        return [name for (name,) in session.rows_of("SELECT name FROM jobs ORDER BY id", {})]


def a_submit(name: str) -> Callable[[Tx], list[int]]:
    return lambda tx: tx.add_jobs([a_draft(name=name)])


def steal(url: str) -> int:
    """Take the claim over as a second server does when it has lapsed; the new term."""
    with sessions(url) as [session]:
        while True:  # it may be renewed in this moment
            term = take_over(session, row_of(session), Claimant("thief", ELSEWHERE))
            if term is not None:
                return term

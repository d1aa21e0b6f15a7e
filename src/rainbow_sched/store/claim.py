"""The claim: a lease with a fencing term that allows one server per database.

A row of the database names the server (see migration 0007). Each takeover by another server increments its term. A
server renews the row every `RENEW_SECONDS` (`Claim`), and each of its write transactions first checks that
the row is still its own. On PostgreSQL that check locks the row (`FOR KEY SHARE`) until the transaction ends, and a
takeover waits for it: a write commits before the takeover, or it fails. On SQLite the file's write lock does the same.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store.mark_file import MarkFile
from rainbow_sched.store.processes import ProcessIdentity
from rainbow_sched.store.session import EVENT, Session

log = logging.getLogger(__name__)
SERVER_ROLE = "server"
LEASE_SECONDS = 6.0  # a claim that was not renewed for this long may be taken
RENEW_SECONDS = 1.5  # a quarter of LEASE_SECONDS, so that a late renewal does not lose the claim
WAIT_SECONDS = 10.0  # how long a second server waits for the claim to expire
POLL_SECONDS = 0.2  # between two checks of what another server or session holds
CONFIRM_SECONDS = 15.0  # how long a call waits for the claim to be confirmed
MIN_RENEW_INTERVAL_SECONDS = 0.1  # seconds between two attempts, independent of the number of waiting calls
FIRST_CLAIM_SCHEMA = 7  # the migration that creates the table


class ClaimTaken(Unavailable):
    """Another server serves this database."""


class Replaced(Unavailable):
    """Another server has taken this server's claim; this one may not write or respond any more."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A server that requests a claim: its process, and a random name of this run."""

    instance: str
    identity: ProcessIdentity


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The claim row at the time it was read."""

    term: int
    instance: str
    identity: ProcessIdentity
    since: float
    renewals: int
    expires_at: float
    now: float  # the database's clock when the row was read

    @property
    def lapsed(self) -> bool:
        """Return True if the claim was released, or not renewed in time."""
        return self.expires_at <= self.now

    @property
    def version(self) -> tuple[int, str, int]:
        """Return a value that changes with every renewal and every takeover."""
        return self.term, self.instance, self.renewals

    def __str__(self) -> str:
        return f"the server on {self.identity.host} (process {self.identity.process}, since {utc(self.since)})"


def utc(seconds: float) -> str:
    """Format a time for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def read_claim(session: Session) -> ClaimRow | None:
    """Return the claim row; None if no server has claimed the database yet."""
    row = session.row("claim", role=SERVER_ROLE)
    if row is None:
        return None
    term, instance, host, process, boot, pid_space, process_start, since, renewals, expires_at, now = row
    identity = ProcessIdentity(host, process, boot, pid_space, process_start)
    return ClaimRow(term, instance, identity, since, renewals, expires_at, now)


def check_claim(session: Session, claimant: Claimant, term: int) -> bool:
    """Inside a write transaction, return True if the claim is held; it then is until the transaction ends."""
    return session.row("check_claim", role=SERVER_ROLE, term=term, instance=claimant.instance) is not None


def renew_claim(session: Session, claimant: Claimant, term: int) -> bool:
    """Extend the claim by a lease, even if it has expired; return False if another server has taken it."""
    values = {"role": SERVER_ROLE, "term": term, "instance": claimant.instance, "lease": LEASE_SECONDS}
    return session.change("renew_claim", **values) == 1


def release_claim(session: Session, claimant: Claimant, term: int) -> None:
    """Release the claim, so that the next server need not wait."""
    session.change("release_claim", role=SERVER_ROLE, term=term, instance=claimant.instance)


def take_over(session: Session, seen: ClaimRow, claimant: Claimant) -> int | None:
    """Take the claim if its row is unchanged; return the new term, or None. Waits for active writes."""
    session.begin()
    session.rows("lock_claim", role=SERVER_ROLE)
    term, instance, renewals = seen.version
    changed = session.change(
        "take_claim",
        role=SERVER_ROLE,
        lease=LEASE_SECONDS,
        instance=claimant.instance,
        seen_term=term,
        seen_instance=instance,
        seen_renewals=renewals,
        **asdict(claimant.identity),
    )
    session.commit()
    return term + 1 if changed == 1 else None


def take_claim(
    session: Session,
    claimant: Claimant,
    *,
    wait: float,
    locked: bool = False,
    evict: Callable[[Session, ClaimRow], None] = lambda session, row: None,
) -> int:
    """Take the claim once it is free, and return its term. ClaimTaken: it is still renewed after `wait` seconds.

    `locked` promises that no other process of this machine can have the database open. `evict` ends the sessions of a
    server whose claim has expired: a frozen one may hold locks in the middle of a write.
    """
    begun = time.monotonic()
    seen, seen_at, warned = None, begun, False
    while True:
        row = read_claim(session)
        if row is None:
            session.begin()
            session.change("add_claim", role=SERVER_ROLE)
            session.commit()
            continue
        now = time.monotonic()
        if row.version != seen:
            seen, seen_at = row.version, now
        unrenewed = now - seen_at >= LEASE_SECONDS  # by our clock, because the database's may have been set back
        if row.lapsed or unrenewed or _has_ended(row, claimant, locked):
            if row.instance:
                evict(session, row)
            term = take_over(session, row, claimant)
            if term is not None:
                if row.instance and row.expires_at:
                    log.warning("%s did not release its claim and is gone; this server takes over", row)
                return term
        elif not warned:
            warned = True
            log.warning("%s has this database; waiting up to %g s for it to stop", row, wait)
        if now - begun >= wait:
            raise ClaimTaken(
                f"{row} serves this database, and only one server may: stop that server first, "
                "or give this one a database of its own (--db)"
            )
        time.sleep(POLL_SECONDS)  # there is no notification when the row changes


def _has_ended(row: ClaimRow, claimant: Claimant, locked: bool) -> bool:
    """Return True if the server of an unexpired claim has certainly ended."""
    here = claimant.identity.boot != "" and row.identity.boot == claimant.identity.boot
    return (locked and here) or row.identity.has_ended()


class Claim:
    """The claim of this process. A thread with its own connection renews it.

    Each write checks the row (`check`), whatever the time. A response from memory needs a recent renewal: after a lease
    without one this process may have been replaced, so it asks the database first (`confirm`).
    """

    def __init__(
        self, claimant: Claimant, term: int, connect: Callable[[], Session], taken_at: float, *, name: str
    ) -> None:
        """`connect` opens a session for renewals; `taken_at` is `elapsed()` before the claim was taken."""
        self.claimant, self.term = claimant, term
        self._connect, self._name = connect, name
        self._confirmed_at = taken_at
        self._replaced: Replaced | None = None
        self._newest_event = 0  # stored by this server
        self.mark_file: MarkFile | None = None  # records it for the next start
        self._failure: Exception | None = None  # why the last renewal failed
        self._session: Session | None = None
        self._stop, self._wake = threading.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()  # set and cleared at once after each attempt to renew
        self._thread = threading.Thread(target=self._run, name="rainbow-claim", daemon=True)

    @classmethod
    def take(
        cls,
        writer: Session,
        claimant: Claimant,
        connect: Callable[[], Session],
        *,
        name: str,
        locked: bool = False,
        evict: Callable[[Session, ClaimRow], None] = lambda session, row: None,
    ) -> Claim:
        """Take the claim as `take_claim` does, and make every write transaction of `writer` check it."""
        taken_at = elapsed()
        term = take_claim(writer, claimant, wait=WAIT_SECONDS, locked=locked, evict=evict)
        claim = cls(claimant, term, connect, taken_at, name=name)
        writer.guard, writer.on_event = claim.check, claim.note_event
        return claim

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start renewing; callers of `confirm` and `wait_replaced` wait in `loop`."""
        self._loop = loop
        self._thread.start()

    def check(self, session: Session) -> None:
        """Inside a write transaction, raise Replaced unless this server holds the claim and its events are stored."""
        if not check_claim(session, self.claimant, self.term):
            raise self._note_replaced(read_claim(session))
        if session.committed(EVENT) < self._newest_event:
            raise self._note_replaced(None)

    def note_event(self, event: int, generation: tuple[int, str] | None = None) -> None:
        """Record the newest stored event: a database without it was restored to an older copy."""
        self._newest_event = event
        if self.mark_file is not None:
            self.mark_file.advance(event, generation)

    def is_confirmed(self) -> bool:
        """Return True if no other server can have taken the claim meanwhile."""
        return self._replaced is None and elapsed() - self._confirmed_at < LEASE_SECONDS

    async def confirm(self) -> None:
        """Wait until the claim is confirmed. Replaced: another server has it; Unavailable: no database."""
        if self.is_confirmed():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFIRM_SECONDS):
                while self._replaced is None and not self.is_confirmed():
                    self._wake.set()
                    await self._changed.wait()
        if self._replaced is not None:
            raise self._replaced
        if not self.is_confirmed():
            cause = self._failure or f"{self._name} does not respond"
            raise Unavailable(
                f"this server may have been replaced and cannot ask its database ({cause}); try again later"
            )

    async def wait_replaced(self) -> Replaced:
        """Wait until another server has taken the claim."""
        while self._replaced is None:
            await self._changed.wait()
        return self._replaced

    def close(self) -> None:
        """Stop renewing and release the claim if it is held. Call it after the last write. Blocks."""
        self._stop.set()
        self._wake.set()
        self._thread.join()
        with suppress(Exception):  # if the database is unreachable, the claim expires
            release_claim(self._session or self._connected(), self.claimant, self.term)
        self._disconnect()
        if self.mark_file is not None:
            self.mark_file.close()

    def _run(self) -> None:
        while not self._stop.wait(MIN_RENEW_INTERVAL_SECONDS):
            self._renew()
            self._notify()
            if self._replaced is not None:
                return
            self._wake.wait(RENEW_SECONDS)
            self._wake.clear()

    def _renew(self) -> None:
        asked_at = elapsed()
        try:
            session = self._session or self._connected()
            if not renew_claim(session, self.claimant, self.term):
                self._note_replaced(read_claim(session))
                return
            self._confirmed_at = asked_at
        except Exception as error:  # any driver error is retried
            self._note_failure(error)
            return
        if self._failure is not None:
            log.info("the claim on the database is renewed again")
        self._failure = None

    def _note_failure(self, error: Exception) -> None:
        session = self._session
        cause = error if session is None else session.dialect.translate(error)
        if self._failure is None:
            log.warning("cannot renew the claim on the database: %s; trying again", cause)
        self._failure = cause
        if session is None:
            return
        asked_at = elapsed()
        try:  # a full disk stops writes, not reads
            row = read_claim(session)
        except Exception:  # the connection is lost
            self._disconnect()
            return
        if row is not None and (row.term, row.instance) == (self.term, self.claimant.instance):
            self._confirmed_at = asked_at
        else:
            self._note_replaced(row)

    def _note_replaced(self, row: ClaimRow | None) -> Replaced:
        """Record that this server was replaced. Called by the claim's thread and by writers."""
        seconds = elapsed() - self._confirmed_at
        if row is None or row.term < self.term:
            message = (
                "the database of this server was emptied or restored to an older copy while the server ran; this "
                "server stores nothing more: restart it"
            )
        else:
            message = (
                f"this server was replaced: {row} has taken over its database. This process had not renewed its "
                f"claim for {seconds:.0f} s (was it stopped, or cut off from the database?); "
                "it stores nothing more: use the other server"
            )
        if self._replaced is None:
            self._replaced = Replaced(message)
            self._wake.set()
            self._notify()
        return self._replaced

    def _connected(self) -> Session:
        self._session = self._connect()
        return self._session

    def _disconnect(self) -> None:
        if self._session is not None:
            with suppress(Exception):  # the connection is broken already
                self._session.close()
            self._session = None

    def _notify(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake_waiting)

    def _wake_waiting(self) -> None:
        self._changed.set()
        self._changed.clear()


def elapsed() -> float:
    """Return seconds of a monotonic clock that, where available, also counts while the machine is suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)

"""Renew the claim of a running server, and detect when another server has taken it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from rainbow_sched.model.errors import Unavailable
from rainbow_sched.store.claim import (
    LEASE_SECONDS,
    RENEW_SECONDS,
    Claimant,
    ClaimRow,
    Replaced,
    check_claim,
    read_claim,
    release_claim,
    renew_claim,
)
from rainbow_sched.store.mark_file import MarkFile
from rainbow_sched.store.session import EVENT, Session

log = logging.getLogger(__name__)
CONFIRM_SECONDS = 15.0  # how long a call waits for the claim to be confirmed
MIN_RENEW_INTERVAL = 0.1  # seconds between two attempts, independent of the number of waiting calls


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
        self._changed: asyncio.Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name="rainbow-claim", daemon=True)

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
                    await self._next_change()
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
            await self._next_change()
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
        while not self._stop.wait(MIN_RENEW_INTERVAL):
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
        if row is not None and row.is_of(self.claimant, self.term):
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

    async def _next_change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._changed)

    def _notify(self) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None


def elapsed() -> float:
    """Return seconds of a monotonic clock that, where available, also counts while the machine is suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)

"""Group commit: one thread writes, and all queued works share the next commit.

Each work runs in its own savepoint, except the first, which a rollback undoes. Works that arrive during a commit are
queued for the next one, so a slower disk leads to larger groups.

A brief work runs in the caller's thread if the writer is idle, and only its commit is left to the writer thread:
switching threads at every statement would cost more than statements that take microseconds.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rainbow_sched.model.errors import RainbowError, Unavailable, Unconfirmed
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Replaced
from rainbow_sched.store.session import Session
from rainbow_sched.store.transaction import SqlTx

MAX_WRITES_PER_COMMIT = 512  # bounds how long the first of a group waits for its commit
MAX_GROUP_SECONDS = 0.05  # a group accepts no more works after this time, which bounds the wait of the first
RECONNECT_SECONDS = 15.0  # calls wait this long for a lost database before they fail
RETRY_SECONDS = 0.05  # between two attempts to reach a lost database


class ConnectionLost(Exception):
    """The connection broke before the commit: nothing was stored, and the works can be retried."""


@dataclass(slots=True)
class WriteRequest:
    """A queued work and the future of its caller."""

    work: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class _Commit:
    """Queue item: commit the open transaction."""


_COMMIT = _Commit()


@dataclass(slots=True)
class Counts:
    """Numbers of commits and works, for benchmarks and health."""

    commits: int = 0
    works: int = 0


@dataclass(slots=True)
class Writer:
    """The thread that owns the writing connection."""

    connect: Callable[[], Session]
    session: Session
    counts: Counts = field(default_factory=Counts)
    _reachable: bool = True
    _ending: bool = False  # close was requested; works queued before it are still executed
    _ended: bool = False  # the thread reads the queue no more
    _queue: queue.SimpleQueue[WriteRequest | _Commit | None] = field(default_factory=queue.SimpleQueue)
    _session_lock: threading.Lock = field(default_factory=threading.Lock)
    _open: list[WriteRequest] = field(default_factory=list)  # brief works that have run and wait for their commit
    _thread: threading.Thread | None = None
    _closing: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="rainbow-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], Any], *, brief: bool = False) -> Any:
        """Run and commit `work`; run a brief one in this thread if possible."""
        if self._closing.is_set():
            raise Unavailable("the store is closed")
        loop = asyncio.get_running_loop()
        request = WriteRequest(work, loop, loop.create_future())
        self._queue.put(_COMMIT if brief and self._run_here(request) else request)
        if self._ended:  # closed meanwhile: the thread does not read the queue any more
            self._reject_queued()
        return await request.future

    def _run_here(self, request: WriteRequest) -> bool:
        """Run a brief work in the open transaction or a new one; return False to leave it to the writer thread."""
        session = self.session
        if not session.dialect.begin_brief or not self._session_lock.acquire(blocking=False):
            return False
        try:
            if self._closing.is_set():
                return False
            if not self._open:
                _prepare(session, partial(session.begin, brief=True))
            _attempt(session, request)
            _prepare(session, session.flush)
            self._open.append(request)
        except ConnectionLost:
            self._requeue_open()
            return False
        except BaseException:  # the thread was interrupted: do not commit a partial work
            _abandon(session)
            self._requeue_open()
            raise
        finally:
            self._session_lock.release()
        return True

    def _requeue_open(self) -> None:
        """Queue the works of the transaction that was undone; the writer thread runs them again."""
        undone, self._open = self._open, []
        for request in undone:
            self._queue.put(request)

    def close(self) -> None:
        """Finish queued works, end the thread and close the connection. Blocks."""
        if not self._closing.is_set():
            self._closing.set()
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending:
            first = self._queue.get()
            if first is None:
                break
            with self._session_lock:
                group, self._open = self._open, []
                begun = len(group)
                if isinstance(first, WriteRequest):
                    group.append(first)
                if group:
                    self._commit_group(group, begun)
            _deliver(group)
        self._ended = True
        self._reject_queued()
        self.session.close()

    def _reject_queued(self) -> None:
        """Fail the works that were queued while the store was closing."""
        with self._session_lock:
            rest, self._open = self._open, []  # closing the session undoes them
        with suppress(queue.Empty):
            while True:
                request = self._queue.get_nowait()
                if isinstance(request, WriteRequest):
                    rest.append(request)
        for request in rest:
            request.error = Unavailable("the store is closed")
        _deliver(rest)

    def _commit_group(self, group: list[WriteRequest], begun: int) -> None:
        """Commit all of them; the first `begun` have run in the open transaction."""
        if not self._reachable:
            self._renew()
        # After a long outage, try only once per group, so that callers fail fast.
        deadline = time.monotonic() + (RECONNECT_SECONDS if self._reachable else 0.0)
        while True:
            try:
                self._transaction(group, begun)
                self._reachable = True
                return
            except Replaced as replaced:  # permanent: this server may not write any more
                for request in group:
                    request.error = replaced
                return
            except ConnectionLost as lost:
                if (
                    not self.session.dialect.reconnects
                    or time.monotonic() >= deadline
                    or self._closing.wait(RETRY_SECONDS)
                ):
                    self._reachable = not self.session.dialect.reconnects
                    for request in group:
                        request.error = Unavailable(f"the database does not take this now: {lost}; try again later")
                    return
            begun = 0
            self._renew()

    def _renew(self) -> None:
        """Open another connection; if that fails, the old one stays closed and its next use fails."""
        self.session.close()
        with suppress(RainbowError):
            self.session = self.connect()

    def _transaction(self, group: list[WriteRequest], begun: int) -> None:
        """Run the group, and works that are queued meanwhile."""
        session = self.session
        if not begun:
            _prepare(session, session.begin)
        until = time.monotonic() + MAX_GROUP_SECONDS
        done = begun
        while True:
            for request in group[done:]:
                _attempt(session, request)
            done = len(group)
            if self._ending or done >= MAX_WRITES_PER_COMMIT or time.monotonic() >= until:
                break
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._ending = True
            elif isinstance(more, WriteRequest):
                group.append(more)
        self._commit(session, group)

    def _commit(self, session: Session, group: list[WriteRequest]) -> None:
        _prepare(session, session.flush)
        try:
            session.commit()
        except Exception as error:  # for any error the outcome of the commit is unknown
            cause = session.dialect.translate(error)
            # If the embedded database rejects a commit, nothing was stored that this process will read.
            local = isinstance(cause, RainbowError) and not session.dialect.reconnects
            kind = Unavailable if local else Unconfirmed
            for request in group:
                if request.error is None:
                    request.error = kind(f"it is not known whether this was stored ({cause}); try again")
            _abandon(session)
            return
        self.counts.commits += 1
        self.counts.works += len(group)


def _prepare(session: Session, step: Callable[[], None]) -> None:
    """Begin a transaction, or flush it before its commit; if that fails, nothing is stored."""
    try:
        step()
    except Replaced:
        _abandon(session)
        raise
    except Exception as error:  # for any driver error, nothing was committed
        _abandon(session)  # a failed rollback may have left the last transaction open
        raise ConnectionLost(str(session.dialect.translate(error))) from error


def _attempt(session: Session, request: WriteRequest) -> None:
    """Run one work and store its result or exception; raise ConnectionLost if the whole transaction broke."""
    request.answer, request.error = None, None
    try:
        session.start_work()
        request.answer = request.work(SqlTx(session))
        session.accept_work()
    except Exception as error:  # from the work or from the driver
        request.error = session.dialect.translate(error)
        if isinstance(request.error, StopIteration):  # a future cannot hold it
            request.error = RuntimeError("the work ran past the end of an iterator")
        try:
            session.undo_work()
        except Exception:  # the error aborted the whole transaction
            _abandon(session)
            raise ConnectionLost(str(request.error)) from error


def _abandon(session: Session) -> None:
    try:
        session.rollback()
    except Exception:  # the connection or transaction is already gone; reconnecting recovers
        return


def _deliver(group: list[WriteRequest]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteRequest]] = {}
    for request in group:
        by_loop.setdefault(request.loop, []).append(request)
    for loop, waiting in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(group: list[WriteRequest]) -> None:
    for request in group:
        if request.future.done():
            continue  # the caller was cancelled; the work is committed nevertheless
        if request.error is not None:
            request.future.set_exception(request.error)
        else:
            request.future.set_result(request.answer)

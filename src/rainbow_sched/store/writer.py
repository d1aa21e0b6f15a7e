"""Group commit: one thread writes, and everything that waits shares the next commit.

Each work runs in its own savepoint, but for the first, which is undone by a rollback. While
a commit is being forced to disk, the next works gather; so the slower the disk, the more of
them share one commit.

A brief work runs in the thread that asks for it, if nobody is writing, and only its commit
is left to the writing thread: Python's threads change hands at every statement, and where
statements take microseconds, that costs more than they do.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rainbow_sched.model.errors import RainbowError, Unavailable, Unconfirmed
from rainbow_sched.store.base import Tx
from rainbow_sched.store.claim import Replaced
from rainbow_sched.store.session import Session
from rainbow_sched.store.transaction import SqlTx

MAX_GROUP = 512
MAX_SECONDS = 0.05  # a group takes no more works after this time, so that the first need not wait for the last
RECONNECT_SECONDS = 15.0
PAUSE = 0.05


class ConnectionLost(Exception):
    """The connection broke before the commit was asked for: nothing happened, it can be done again."""


@dataclass(slots=True)
class WriteRequest:
    """A work that somebody awaits."""

    work: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class _Commit:
    """Asks the thread to commit what is open."""


_COMMIT = _Commit()


@dataclass(slots=True)
class Counts:
    """What the writer has done, for benchmarks and health."""

    commits: int = 0
    works: int = 0


@dataclass(slots=True)
class Writer:
    """The thread that owns the writing connection."""

    connect: Callable[[], Session]
    session: Session
    counts: Counts = field(default_factory=Counts)
    _reachable: bool = True
    _ending: bool = False  # the end was asked for; what was asked before it is still done
    _over: bool = False  # the thread looks at nothing more
    _asked: queue.SimpleQueue[WriteRequest | _Commit | None] = field(default_factory=queue.SimpleQueue)
    _turn: threading.Lock = field(default_factory=threading.Lock)  # of whoever uses the session
    _open: list[WriteRequest] = field(default_factory=list)  # brief works that were run and wait for their commit
    _thread: threading.Thread | None = None
    _closing: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begin to work."""
        self._thread = threading.Thread(target=self._run, name="rainbow-writer", daemon=True)
        self._thread.start()

    async def write(self, work: Callable[[Tx], Any], *, brief: bool = False) -> Any:
        """Have `work` run and committed; a brief one here and now, if that is possible."""
        if self._closing.is_set():
            raise Unavailable("the store is closed")
        loop = asyncio.get_running_loop()
        asked = WriteRequest(work, loop, loop.create_future())
        self._asked.put(_COMMIT if brief and self._run_here(asked) else asked)
        if self._over:  # it was closed a moment ago, and nobody looks at what is asked any more
            self._refuse_rest()
        return await asked.future

    def _run_here(self, asked: WriteRequest) -> bool:
        """Run a brief work in the transaction that is open, or in a new one; False if it is left to the thread."""
        session = self.session
        if not session.dialect.begin_brief or not self._turn.acquire(blocking=False):
            return False
        try:
            if self._closing.is_set():
                return False
            if not self._open:
                _begin(session, brief=True)
            _attempt(session, asked)
            _flush(session)
            self._open.append(asked)
        except ConnectionLost:
            self._do_again()
            return False
        except BaseException:  # the thread was interrupted: half a work is not committed with those before it
            _abandon(session)
            self._do_again()
            raise
        finally:
            self._turn.release()
        return True

    def _do_again(self) -> None:
        """What was open is undone: the thread does it again, with more patience."""
        lost, self._open = self._open, []
        for asked in lost:
            self._asked.put(asked)

    def close(self) -> None:
        """Finish what was asked, end the thread and the connection. Blocks."""
        if not self._closing.is_set():
            self._closing.set()
            self._asked.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending:
            first = self._asked.get()
            if first is None:
                break
            with self._turn:
                group, self._open = self._open, []
                begun = len(group)
                if isinstance(first, WriteRequest):
                    group.append(first)
                if group:
                    self._commit_group(group, begun)
            _deliver(group)
        self._over = True
        self._refuse_rest()
        self.session.close()

    def _refuse_rest(self) -> None:
        """Whoever asked between the closing and its notice is told so."""
        with self._turn:
            rest, self._open = self._open, []  # undone when the session is closed
        with suppress(queue.Empty):
            while True:
                asked = self._asked.get_nowait()
                if isinstance(asked, WriteRequest):
                    rest.append(asked)
        for asked in rest:
            asked.error = Unavailable("the store is closed")
        _deliver(rest)

    def _commit_group(self, group: list[WriteRequest], begun: int) -> None:
        """Commit them all; the first `begun` of them were run in the transaction that is open."""
        if not self._reachable:
            self._renew()
        # Once it was out of reach for long, a group tries only once, so that callers learn it soon.
        deadline = time.monotonic() + (RECONNECT_SECONDS if self._reachable else 0.0)
        while True:
            try:
                self._transaction(group, begun)
                self._reachable = True
                return
            except Replaced as replaced:  # for good: nothing of this server is stored any more
                for asked in group:
                    asked.error = replaced
                return
            except ConnectionLost as lost:
                if not self.session.dialect.reconnects or time.monotonic() >= deadline or self._closing.wait(PAUSE):
                    self._reachable = not self.session.dialect.reconnects
                    for asked in group:
                        asked.error = Unavailable(f"the database does not take this now: {lost}; try again later")
                    return
            begun = 0
            self._renew()

    def _renew(self) -> None:
        """Open another connection; if that fails, the old one stays closed and says so when it is used."""
        self.session.close()
        with suppress(RainbowError):
            self.session = self.connect()

    def _transaction(self, group: list[WriteRequest], begun: int) -> None:
        """Run the group, and whoever joins while it runs."""
        session = self.session
        if not begun:
            _begin(session)
        until = time.monotonic() + MAX_SECONDS
        done = begun
        while True:
            for asked in group[done:]:
                _attempt(session, asked)
            done = len(group)
            if self._ending or done >= MAX_GROUP or time.monotonic() >= until:
                break
            try:
                more = self._asked.get_nowait()
            except queue.Empty:
                break
            if more is None:
                self._ending = True
            elif isinstance(more, WriteRequest):
                group.append(more)
        self._commit(session, group)

    def _commit(self, session: Session, group: list[WriteRequest]) -> None:
        _flush(session)
        try:
            session.commit()
        except Exception as error:  # whatever it was, the outcome is the same for all: not known to be durable
            _fail_all(group, error, session)
            _abandon(session)
            return
        self.counts.commits += 1
        self.counts.works += len(group)


def _begin(session: Session, *, brief: bool = False) -> None:
    try:
        session.begin(brief=brief)
    except Replaced:
        _abandon(session)
        raise
    except Exception as error:  # whatever a driver raises here, nothing has begun
        _abandon(session)  # it may be that the last transaction could not be undone, and is open still
        raise ConnectionLost(str(session.dialect.translate(error))) from error


def _flush(session: Session) -> None:
    try:
        session.flush()
    except Exception as error:  # whatever a driver raises here, nothing was committed
        _abandon(session)
        raise ConnectionLost(str(session.dialect.translate(error))) from error


def _attempt(session: Session, asked: WriteRequest) -> None:
    """Run one work; what it raises is its own answer, unless the whole transaction broke."""
    asked.answer, asked.error = None, None
    try:
        session.save()
        asked.answer = asked.work(SqlTx(session))
        session.keep()
    except Exception as error:  # the work's own, or the driver's
        asked.error = session.dialect.translate(error)
        if isinstance(asked.error, StopIteration):  # a future cannot carry it
            asked.error = RuntimeError("the work ran past the end of an iterator")
        try:
            session.restore()
        except Exception:  # the error took the whole transaction with it
            _abandon(session)
            raise ConnectionLost(str(asked.error)) from error


def _fail_all(group: list[WriteRequest], error: Exception, session: Session) -> None:
    cause = session.dialect.translate(error)
    # A database in this process that says no has stored nothing that the process will see, until a crash at least.
    local = isinstance(cause, RainbowError) and not session.dialect.reconnects
    kind = Unavailable if local else Unconfirmed
    for asked in group:
        if asked.error is None:
            asked.error = kind(f"it is not known whether this was stored ({cause}); ask again")


def _abandon(session: Session) -> None:
    try:
        session.rollback()
    except Exception:  # the connection or the transaction is gone already; reconnecting settles it
        return


def _deliver(group: list[WriteRequest]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[WriteRequest]] = {}
    for asked in group:
        by_loop.setdefault(asked.loop, []).append(asked)
    for loop, waiting in by_loop.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(group: list[WriteRequest]) -> None:
    for asked in group:
        if asked.future.done():
            continue  # its caller gave up; the work is committed all the same
        if asked.error is not None:
            asked.future.set_exception(asked.error)
        else:
            asked.future.set_result(asked.answer)

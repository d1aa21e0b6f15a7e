"""Run admitted calls: within a deadline and the load that the server can bear, or watched while they stay open.

Submissions are shed under load. Streams and long polls are closed within a second after their credential is revoked or
loses rights; the monitor that does so also writes refused calls to the audit log, and records the last use of tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import grpc

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Denied, Exhausted, RainbowError, Unauthenticated
from rainbow_sched.server.admission.calls import Behaviour, Call, Response
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.admission.policy import SINGLE
from rainbow_sched.service.access.audit import RefusedCallCounter, write_refusals
from rainbow_sched.service.access.principals import revision
from rainbow_sched.service.clock import Clock
from rainbow_sched.service.clusters.rules import refresh_groups
from rainbow_sched.service.core import Core
from rainbow_sched.store.base import Tx

log = logging.getLogger(__name__)
CHECK_SECONDS = 0.4  # between two checks of open calls; below the second in which a revocation takes effect
FLUSH_SECONDS = 1.0  # refused calls are written at most this often, whatever their number
LAST_USE_SECONDS = 30.0  # last uses of tokens are written at most this often
MIN_QUEUE_LENGTH = 16  # running submissions that are always admitted
SLOWER_WEIGHT = 0.05  # of one slower measurement in the estimate; low against outliers
FASTER_WEIGHT = 0.1  # of one faster measurement in the estimate; low against outliers
LAG_CHECK_SECONDS = 0.05  # between two measurements of the event loop's delay


class Deadlines:
    """Cancels calls that exceed a common time limit, with one timer for all.

    A timer for each call would cost more than all other checks together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadlines: dict[asyncio.Task[object], float] = {}  # oldest first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, call: asyncio.Task[object]) -> None:
        """Start the time limit of a call."""
        loop = asyncio.get_running_loop()
        self._deadlines[call] = loop.time() + self.seconds
        if self._timer is None:
            self._timer = loop.call_later(self.seconds, self._expire, loop)

    def end(self, call: asyncio.Task[object]) -> bool:
        """End the time limit of a call; return False if it was exceeded."""
        return self._deadlines.pop(call, None) is not None

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        for call, due in list(self._deadlines.items()):
            if due > now:
                self._timer = loop.call_at(due, self._expire, loop)
                return
            del self._deadlines[call]
            call.cancel()


class CallGuard:
    """Counts running calls, ends those that exceed their time, and sheds submissions that would come too late."""

    def __init__(self, limits: AdmissionLimits, clock: Clock) -> None:
        self.limits, self._clock = limits, clock
        self._ordinary, self._uploads = Deadlines(limits.deadline), Deadlines(limits.upload_deadline)
        self._in_flight = self._submitting = 0
        self._seconds_each = 0.0  # estimated time of a submission by its place in the queue
        self.lag = 0.0  # seconds by which the event loop is late

    async def run(self, inner: Behaviour, call: Call) -> Response:
        """Return the response of a call; abort it with DEADLINE_EXCEEDED after its time limit."""
        task, deadlines = asyncio.current_task(), self._uploads if call.method.uploads else self._ordinary
        assert task is not None
        if self._in_flight >= self.limits.in_flight:
            raise Exhausted("the server has too many concurrent calls; try again later", retry_after=1.0)
        self._in_flight += 1
        deadlines.begin(task)
        try:
            if call.method.submission:
                return await self._submit(inner, call)
            return await inner(call.message, call.context)
        except asyncio.CancelledError:
            if deadlines.end(task):  # cancelled for another reason
                raise
            task.uncancel()
            message = f"no answer within {deadlines.seconds:g} seconds"
            return await call.context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)
        finally:
            deadlines.end(task)
            self._in_flight -= 1

    async def _submit(self, inner: Behaviour, call: Call) -> Response:
        """Run a submission unless the server is too busy to finish it while its caller waits."""
        ahead = self.begin_submission(call.context.time_remaining())
        began, measured = self._clock.now(), False
        try:
            answer = await inner(call.message, call.context)
            measured = call.method.path in SINGLE
        finally:
            self.end_submission(ahead, self._clock.now() - began, measured=measured)
        return answer

    def begin_submission(self, left: float | None) -> int:
        """Count the start of a submission whose caller waits `left` more seconds; return how many run before it.

        Submissions are shed first: accepting one whose caller has given up when it finishes wastes the work.
        """
        ahead = self._submitting
        patience = self.limits.wait if left is None else min(self.limits.wait, left / 3)
        expected = self._seconds_each * (ahead + 1) if ahead >= MIN_QUEUE_LENGTH else 0.0
        if ahead >= self.limits.submitting or self.lag > self.limits.lag or expected > patience:
            raise Exhausted(
                "the server is busy and accepts no new jobs for a moment", retry_after=round(2.0 + 2 * expected, 3)
            )
        self._submitting += 1
        return ahead

    def end_submission(self, ahead: int, seconds: float, *, measured: bool) -> None:
        """Count the end of a submission; `measured`: use its duration for the estimate."""
        self._submitting -= 1
        if measured:
            change = seconds / (ahead + 1) - self._seconds_each
            self._seconds_each += change * (FASTER_WEIGHT if change < 0 else SLOWER_WEIGHT)

    async def within_upload_deadline(self, work: Awaitable[Response]) -> Response:
        """Return the result of an upload; raise TimeoutError with a message for its caller."""
        seconds = self.limits.upload_deadline
        try:
            async with asyncio.timeout(seconds) as timer:
                return await work
        except TimeoutError:
            late = f"the upload did not end within {seconds:g} seconds"
            raise TimeoutError(late if timer.expired() else "no message came") from None

    async def measure_lag(self) -> None:
        """Measure the delay of the event loop until cancelled; a spike decays within a second."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LAG_CHECK_SECONDS
            await asyncio.sleep(LAG_CHECK_SECONDS)
            late = max(0.0, loop.time() - due)
            self.lag = late if late > self.lag else self.lag * 0.9 + late * 0.1


@dataclass(slots=True, eq=False)
class OpenCall:
    """A stream or long poll, and how to authenticate its caller again."""

    principal: Principal
    again: Callable[[], Awaitable[Principal]]
    task: asyncio.Task[object]
    until: float | None = None  # when its credential expires, as of the last check
    cut: bool = False

    async def check(self) -> None:
        """Cancel the call if its caller is no longer admitted or has fewer rights."""
        try:
            now = await self.again()
        except (Unauthenticated, Denied):
            self._end()
            return
        except Exhausted:
            return
        before = self.principal
        self.until = now.until  # a rotation may have set an expiry
        if now.name != before.name or not (before.scopes <= now.scopes and before.group_members <= now.group_members):
            self._end()

    def _end(self) -> None:
        self.cut = True
        self.task.cancel()


class OpenCallMonitor:
    """Checks open calls, and writes refused calls and token uses to the store."""

    def __init__(self, core: Core, refusals: RefusedCallCounter) -> None:
        self._core, self._store, self._clock = core, core.store, core.clock
        self._credential_resolver, self._refusals = core.credential_resolver, refusals
        self._calls: set[OpenCall] = set()
        self._seen = (-1, -1)  # revisions: of the database, of this process
        self._flushed = self._noted = 0.0

    @contextlib.contextmanager
    def watching(self, principal: Principal, again: Callable[[], Awaitable[Principal]]) -> Iterator[OpenCall]:
        """Watch the current call while the block runs; a revoked credential cancels the block."""
        task = asyncio.current_task()
        assert task is not None
        call = OpenCall(principal, again, task, principal.until)
        self._calls.add(call)
        try:
            yield call
        finally:
            self._calls.discard(call)

    async def run(self) -> None:
        """Check until cancelled. An unreachable database is retried at the next check."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check()
                now = self._clock.now()
                if abs(now - self._flushed) >= FLUSH_SECONDS:
                    await self.flush()
            except RainbowError as error:
                log.warning("cannot check open calls: %s", error)
            except Exception:  # the next check must run after any error
                log.exception("checking open calls failed")

    async def check(self) -> None:
        """Check all calls if rights have changed, else those with an expired credential."""
        stored = await self._store.read(revision)
        now = self._clock.now()
        known, self._seen = self._seen, (stored, self._credential_resolver.revision)
        if known[0] != stored:
            self._credential_resolver.forget()
            await refresh_groups(self._core)
            self._seen = (stored, self._credential_resolver.revision)
        changed = known != self._seen
        for call in list(self._calls):
            over = call.until is not None and now >= call.until
            if (changed or over) and call in self._calls and not call.cut:
                await call.check()

    async def flush(self, *, all: bool = False) -> None:
        """Write refused calls, and every `LAST_USE_SECONDS`, or with `all`, the last use of tokens."""
        now = self._flushed = self._clock.now()
        refused = self._refusals.take()
        uses: dict[str, float] = {}
        if all or abs(now - self._noted) >= LAST_USE_SECONDS:
            self._noted, uses = now, self._credential_resolver.take_uses()
        if not refused and not uses:
            return

        def work(tx: Tx) -> None:
            write_refusals(tx, refused, now)
            for id, at in uses.items():
                tx.touch_credential(id, at)

        await self._store.write(work)

"""Run calls with one response: count them, enforce deadlines, and shed submissions under load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import grpc

from rainbow_sched.model.errors import Exhausted
from rainbow_sched.server.admission.calls import Behaviour, Call, Response
from rainbow_sched.server.admission.limits import AdmissionLimits
from rainbow_sched.server.admission.policy import SINGLE
from rainbow_sched.service.clock import Clock

MIN_QUEUE_LENGTH = 16  # running submissions that are always admitted
SLOWER_WEIGHT, FASTER_WEIGHT = 0.05, 0.1  # weight of one measurement in the estimate; low against outliers
LAG_CHECK_SECONDS = 0.05


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

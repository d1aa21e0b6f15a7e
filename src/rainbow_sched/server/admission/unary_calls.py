"""Run calls with one response: count them, enforce deadlines, and limit submissions under load."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from rainbow_sched.server.admission.limits import RateLimiter
from rainbow_sched.server.admission.methods import Method
from rainbow_sched.server.admission.policy import SINGLE
from rainbow_sched.service.clock import Clock

Inner: TypeAlias = Callable[[Any, Any], Awaitable[Any]]


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
    """Counts running calls and enforces their deadlines."""

    def __init__(self, limiter: RateLimiter, clock: Clock) -> None:
        self._limiter, self._clock = limiter, clock
        self._ordinary = Deadlines(limiter.limits.deadline)
        self._uploads = Deadlines(limiter.limits.upload_deadline)

    async def answer(self, inner: Inner, method: Method, request: Any, context: Any) -> Any:
        """Return the response of a call; abort it with DEADLINE_EXCEEDED after its time limit."""
        call, deadlines = asyncio.current_task(), self._uploads if method.uploads else self._ordinary
        assert call is not None
        self._limiter.begin_call()
        deadlines.begin(call)
        try:
            if method.submission:
                return await self._submission(inner, method, request, context)
            return await inner(request, context)
        except asyncio.CancelledError:
            if deadlines.end(call):  # cancelled for another reason
                raise
            call.uncancel()
            message = f"no answer within {deadlines.seconds:g} seconds"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)
        finally:
            deadlines.end(call)
            self._limiter.end_call()

    async def _submission(self, inner: Inner, method: Method, request: Any, context: Any) -> Any:
        """Run a submission unless the server is too busy to finish it while its caller waits."""
        ahead = self._limiter.begin_submission(context.time_remaining())
        began, measured = self._clock.now(), False
        try:
            answer = await inner(request, context)
            measured = method.path in SINGLE
        finally:
            self._limiter.end_submission(ahead, self._clock.now() - began, measured=measured)
        return answer

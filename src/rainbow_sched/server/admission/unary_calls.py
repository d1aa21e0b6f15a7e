"""Calls with one answer while they are under way: counted, within their deadline, and new work only in time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from rainbow_sched.server.admission.deadlines import Deadlines
from rainbow_sched.server.admission.limits import RateLimiter
from rainbow_sched.server.admission.methods import Method
from rainbow_sched.server.admission.policy import SINGLE
from rainbow_sched.service.clock import Clock

Inner: TypeAlias = Callable[[Any, Any], Awaitable[Any]]


class CallGuard:
    """Lets calls run for as long as they may."""

    def __init__(self, traffic: RateLimiter, clock: Clock) -> None:
        self._traffic, self._clock = traffic, clock
        self._ordinary = Deadlines(traffic.limits.deadline)
        self._uploads = Deadlines(traffic.limits.upload_deadline)

    async def answer(self, inner: Inner, method: Method, request: Any, context: Any) -> Any:
        """One answer within its deadline, counted while it is under way."""
        call, deadlines = asyncio.current_task(), self._uploads if method.uploads else self._ordinary
        assert call is not None
        self._traffic.begin()
        deadlines.begin(call)
        try:
            if method.submission:
                return await self._submission(inner, method, request, context)
            return await inner(request, context)
        except asyncio.CancelledError:
            if deadlines.end(call):  # it was somebody else who cancelled it
                raise
            call.uncancel()
            message = f"no answer within {deadlines.seconds:g} seconds"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)
        finally:
            deadlines.end(call)
            self._traffic.end()

    async def _submission(self, inner: Inner, method: Method, request: Any, context: Any) -> Any:
        """New work: let in if it can be done while its caller still waits."""
        ahead = self._traffic.submit(context.time_remaining())
        began, told = self._clock.now(), False
        try:
            answer = await inner(request, context)
            told = method.path in SINGLE
        finally:
            self._traffic.submitted(ahead, self._clock.now() - began, told=told)
        return answer

"""Before a message is read: whoever is not known yet says who they are first, and sends no more than can be held.

gRPC hands a handler its message only when all of it is there, and a message may have 64 MiB. So a caller
whose credential was never good here is taken for one who streams: the credential is looked at first, and
only then is the message read. Where the credential is inside the message, as the prototype's clients send
it, few such messages are read at a time. Uploads, which stream anyway, are bounded in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.errors import Exhausted, Invalid, RainbowError, Unauthenticated
from rainbow_sched.server.admission.connections import network_of
from rainbow_sched.server.admission.credentials import Authenticator, address_of
from rainbow_sched.server.admission.limits import RateLimiter
from rainbow_sched.server.admission.policy import BULKY, POLICY, Administrator, Caller, Nobody, Row, Scoped, Submitter
from rainbow_sched.service.access.audit import ANONYMOUS, act_as

BY_METADATA = (Caller, Submitter, Administrator, Scoped, Nobody)
READ = 10.0  # seconds for the first message
WAIT = 30.0  # seconds for a turn to be read
TURNS, TURNS_EACH = 8, 2  # unknown callers' messages read at a time: in all, and of one network

Abort = Callable[[str, Any, RainbowError], Awaitable[Any]]


class ConcurrencyLimit:
    """Who may have their message read now; the others wait, and what they send waits with them."""

    def __init__(self, all: int, each: int, wait: float) -> None:
        self._all, self._most, self._wait = asyncio.Semaphore(all), each, wait
        self._each: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def one(self, key: str) -> AsyncIterator[None]:
        """Hold a turn while the block runs."""
        own, waiting = self._each.get(key) or (asyncio.Semaphore(self._most), 0)
        if waiting >= 100 * self._most:
            raise Exhausted("too many of your calls wait to be read; wait a moment", retry_after=5.0)
        self._each[key] = (own, waiting + 1)
        try:
            async with asyncio.timeout(self._wait) as timer, own, self._all:
                timer.reschedule(None)
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise Exhausted("too many messages are being read; wait a moment", retry_after=5.0) from None
        finally:
            own, waiting = self._each[key]
            if waiting > 1:
                self._each[key] = (own, waiting - 1)
            else:
                del self._each[key]


class PreAuthReader:
    """Stands before the gate's handlers for callers who are not known yet."""

    def __init__(self, callers: Authenticator, traffic: RateLimiter, abort: Abort) -> None:
        self._callers, self._traffic, self._abort = callers, traffic, abort
        self._turns = ConcurrencyLimit(TURNS, TURNS_EACH, WAIT)
        self._wary: dict[str, Any] = {}
        self.known: Callable[[str], bool] = lambda peer: False  # connections over which a good credential came

    def choose(self, path: str, handler: Any, metadata: Any) -> Any:
        """The handler itself for a call with a credential that was good before, else one that is wary."""
        if not handler.request_streaming and self._callers.familiar(metadata):
            return handler
        wary = self._wary.get(path)
        if wary is None:
            wary = self._wary[path] = self._wrapped(path, handler)
        return wary

    def _wrapped(self, path: str, handler: Any) -> Any:
        row = POLICY.get(path, Nobody())
        behave = self._uploading if handler.request_streaming else self._reading
        many = handler.response_streaming
        if handler.request_streaming:
            inner = handler.stream_stream if many else handler.stream_unary
        else:
            inner = handler.unary_stream if many else handler.unary_unary
        make = grpc.stream_stream_rpc_method_handler if many else grpc.stream_unary_rpc_method_handler
        behaviour = behave(path, row, inner, single=not many)
        if many:
            behaviour = _answering(behaviour)
        return make(behaviour, handler.request_deserializer, handler.response_serializer)

    def _reading(self, path: str, row: Row, inner: Any, *, single: bool) -> Any:
        """Around a method that takes one message."""

        async def behaviour(messages: AsyncIterator[Any], context: Any) -> Any:
            message = await self._told(path, context, self._one(path, row, messages, context))
            return await inner(message, context) if single else inner(message, context)

        return behaviour

    def _uploading(self, path: str, row: Row, inner: Any, *, single: bool) -> Any:
        """Around a method that takes a stream."""

        async def behaviour(messages: AsyncIterator[Any], context: Any) -> Any:
            await self._told(path, context, self._introduced(row, context))
            return await inner(_begun(messages), context) if single else inner(_begun(messages), context)

        return behaviour

    async def _told(self, path: str, context: Any, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except RainbowError as error:
            return await self._abort(path, context, error)
        except TimeoutError:
            message = f"the message did not come within {READ:g} seconds"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    async def _introduced(self, row: Row, context: Any) -> Principal:
        address = address_of(context.peer())
        act_as(ANONYMOUS, address)
        if isinstance(row, Nobody):
            raise Unauthenticated("this call is not open to anyone; use rainbow.v2")
        return await self._callers.introduce(context, address)

    async def _one(self, path: str, row: Row, messages: AsyncIterator[Any], context: Any) -> Any:
        peer = context.peer()
        if isinstance(row, BY_METADATA):
            await self._introduced(row, context)
        elif not self.known(peer):
            async with self._turns.one(network_of(address_of(peer))):
                return await _first(messages, self._traffic.limits.upload_deadline if path in BULKY else READ)
        return await _first(messages, READ)


def _answering(behaviour: Any) -> Any:
    """A behaviour whose inner one answers with a stream: an asynchronous generator, or one that writes itself."""

    async def answers(messages: AsyncIterator[Any], context: Any) -> None:
        stream = await behaviour(messages, context)
        if not hasattr(stream, "__aiter__"):
            await stream
            return
        async with contextlib.aclosing(stream):
            async for message in stream:
                await context.write(message)

    return answers


async def _first(messages: AsyncIterator[Any], seconds: float) -> Any:
    async with asyncio.timeout(seconds):
        async for message in messages:
            return message
    raise Invalid("the call carries no message")


async def _begun(messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The stream, if its first message comes in time."""
    yield await _first(messages, READ)
    async for message in messages:
        yield message

"""Authenticate unknown callers before reading their message, to bound memory.

gRPC calls a handler when the whole message has arrived, and a message may have 64 MiB. Calls with an unknown credential
are therefore handled as streams: the credential is checked first, then the message is read. If the credential is inside
the message, as the prototype's clients send it, the number of concurrent reads is limited. Uploads, which are streams
anyway, are bounded in the same way.
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
from rainbow_sched.server.admission.policy import (
    BULKY,
    POLICY,
    AccessRule,
    Administrator,
    Caller,
    Nobody,
    Scoped,
    Submitter,
)
from rainbow_sched.service.access.audit import ANONYMOUS, act_as

METADATA_RULES = (Caller, Submitter, Administrator, Scoped, Nobody)
READ_TIMEOUT_SECONDS = 10.0  # for the first message
QUEUE_TIMEOUT_SECONDS = 30.0  # for a free slot
MAX_READS, MAX_READS_PER_NETWORK = 8, 2  # concurrent reads of messages from unknown callers

Abort = Callable[[str, Any, RainbowError], Awaitable[Any]]


class ConcurrencyLimit:
    """Limits concurrent users in total and per key; others wait up to a timeout."""

    def __init__(self, total: int, per_key: int, timeout: float) -> None:
        self._total, self._per_key, self._timeout = asyncio.Semaphore(total), per_key, timeout
        self._by_key: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @contextlib.asynccontextmanager
    async def slot(self, key: str) -> AsyncIterator[None]:
        """Occupy a slot while the block runs."""
        own, waiting = self._by_key.get(key) or (asyncio.Semaphore(self._per_key), 0)
        if waiting >= 100 * self._per_key:
            raise Exhausted("too many of your calls wait to be read; try again later", retry_after=5.0)
        self._by_key[key] = (own, waiting + 1)
        try:
            async with asyncio.timeout(self._timeout) as timer, own, self._total:
                timer.reschedule(None)
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            raise Exhausted("too many messages are being read; try again later", retry_after=5.0) from None
        finally:
            own, waiting = self._by_key[key]
            if waiting > 1:
                self._by_key[key] = (own, waiting - 1)
            else:
                del self._by_key[key]


class PreAuthReader:
    """Wraps the handlers of the gate for callers that are not authenticated yet."""

    def __init__(self, authenticator: Authenticator, limiter: RateLimiter, abort: Abort) -> None:
        self._authenticator, self._limiter, self._abort = authenticator, limiter, abort
        self._unknown_callers = ConcurrencyLimit(MAX_READS, MAX_READS_PER_NETWORK, QUEUE_TIMEOUT_SECONDS)
        self._pre_auth_handlers: dict[str, Any] = {}
        self.known: Callable[[str], bool] = lambda peer: False  # True for an authenticated connection

    def choose(self, path: str, handler: Any, metadata: Any) -> Any:
        """Return the handler itself for a call with a credential that was valid before, else the wrapped one."""
        if not handler.request_streaming and self._authenticator.has_known_credential(metadata):
            return handler
        guarded = self._pre_auth_handlers.get(path)
        if guarded is None:
            guarded = self._pre_auth_handlers[path] = self._wrapped(path, handler)
        return guarded

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

    def _reading(self, path: str, row: AccessRule, inner: Any, *, single: bool) -> Any:
        """Wrap a method with one request message."""

        async def behaviour(messages: AsyncIterator[Any], context: Any) -> Any:
            message = await self._or_abort(path, context, self._one(path, row, messages, context))
            return await inner(message, context) if single else inner(message, context)

        return behaviour

    def _uploading(self, path: str, row: AccessRule, inner: Any, *, single: bool) -> Any:
        """Wrap a method with a stream of request messages."""

        async def behaviour(messages: AsyncIterator[Any], context: Any) -> Any:
            await self._or_abort(path, context, self._authenticate_caller(row, context))
            return await inner(_begun(messages), context) if single else inner(_begun(messages), context)

        return behaviour

    async def _or_abort(self, path: str, context: Any, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except RainbowError as error:
            return await self._abort(path, context, error)
        except TimeoutError:
            message = f"the message did not come within {READ_TIMEOUT_SECONDS:g} seconds"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    async def _authenticate_caller(self, row: AccessRule, context: Any) -> Principal:
        address = address_of(context.peer())
        act_as(ANONYMOUS, address)
        if isinstance(row, Nobody):
            raise Unauthenticated("this call is disabled; use rainbow.v2")
        return await self._authenticator.identify_by_metadata(context, address)

    async def _one(self, path: str, row: AccessRule, messages: AsyncIterator[Any], context: Any) -> Any:
        peer = context.peer()
        if isinstance(row, METADATA_RULES):
            await self._authenticate_caller(row, context)
        elif not self.known(peer):
            async with self._unknown_callers.slot(network_of(address_of(peer))):
                return await _first(
                    messages, self._limiter.limits.upload_deadline if path in BULKY else READ_TIMEOUT_SECONDS
                )
        return await _first(messages, READ_TIMEOUT_SECONDS)


def _answering(behaviour: Any) -> Any:
    """Wrap a behaviour with a response stream: an asynchronous generator, or a coroutine that writes to the context."""

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
    """Yield the messages of the stream; raise TimeoutError if the first one is late."""
    yield await _first(messages, READ_TIMEOUT_SECONDS)
    async for message in messages:
        yield message

"""The entry of every call: one list of checks in the order of one constructor, and errors as gRPC statuses.

Handlers only translate and delegate; they get the caller from `caller()` and check no rights.

gRPC calls a handler when the whole message has arrived, and a message may have 64 MiB. Calls whose credential was never
valid here are therefore served as streams: the credential is checked first, then the message is read. If the credential
is inside the message, as the prototype's clients send it, the number of concurrent reads is limited.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

import grpc
from grpc import aio

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Denied, Invalid, RainbowError, Unauthenticated
from rainbow_sched.server.admission.calls import (
    MAX_MESSAGE_BYTES,
    Behaviour,
    Call,
    Context,
    GenericHandler,
    Handler,
    Method,
    Response,
)
from rainbow_sched.server.admission.connections import ConnectionLimiter, network_of
from rainbow_sched.server.admission.credentials import Authenticator
from rainbow_sched.server.admission.limits import AdmissionLimits, ConcurrencyLimit, RateLimiter
from rainbow_sched.server.admission.policy import Access, Request
from rainbow_sched.server.admission.running_calls import CallGuard, OpenCall, OpenCallMonitor
from rainbow_sched.server.status import status_of
from rainbow_sched.service.access.audit import RefusedCall, RefusedCallCounter, acting
from rainbow_sched.service.core import Core
from rainbow_sched.store.claim import Claim

log = logging.getLogger(__name__)
READ_TIMEOUT_SECONDS = 10.0  # for the first message
QUEUE_TIMEOUT_SECONDS = 30.0  # for a free slot to read in
MAX_READS = 8  # concurrent reads of messages from unknown callers; bounds their memory
MAX_READS_PER_NETWORK = 2  # so that one network does not take all of MAX_READS
MAX_UPLOADS = 64  # concurrent; each is buffered until it is complete
MAX_UPLOADS_PER_PRINCIPAL = 16  # so that one principal does not take all of MAX_UPLOADS
_REVOKED = "the credential of this call was revoked or has fewer rights than before; connect again"

Check = Callable[[Call], Awaitable[None] | None]  # raises to refuse; an awaitable: it has to wait


def caller() -> Principal:
    """Return the caller of the current call."""
    return acting().principal


class AdmissionPipeline(GenericHandler):
    """The generic handler of the server, to which all services are added.

    It wraps each method once. An interceptor would do the same, but would cost one more coroutine per call.
    """

    def __init__(self, core: Core, *, limits: AdmissionLimits | None = None, anonymous_satisfy: bool = False) -> None:
        limits = limits or AdmissionLimits()
        self._clock, self._fleet = core.clock, core.fleet
        self.claim: Claim | None = None  # None: no other server can serve the database
        self.connections: ConnectionLimiter | None = None  # set when the port is open
        self.limiter = RateLimiter(limits)
        self.calls = CallGuard(limits, core.clock)
        self._refusals = RefusedCallCounter()
        self.monitor = OpenCallMonitor(core, self._refusals)
        self.authenticator = Authenticator(
            core.credential_resolver, core.clock, self.limiter, anonymous_satisfy=anonymous_satisfy
        )
        self._reads = ConcurrencyLimit(MAX_READS, MAX_READS_PER_NETWORK, QUEUE_TIMEOUT_SECONDS)
        self._uploads = ConcurrencyLimit(MAX_UPLOADS, MAX_UPLOADS_PER_PRINCIPAL, limits.upload_deadline)
        self._checks: tuple[Check, ...] = (
            self._check_claim,  # this server still serves the database
            Call.check_message,  # size, and that it can be read
            self.authenticator.authenticate,  # the credential names the caller
            self.authenticator.authorize,  # the access rule of the method admits them
            self._count,  # the rate of the caller
        )
        # What is admitted runs within a deadline (`calls`) or, if it stays open, watched (`monitor`): see `_answer`.
        self._services: list[GenericHandler] = []
        self._wrapped: dict[str, tuple[Handler | None, Handler]] = {}  # for known callers, for unknown ones
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the background tasks."""
        work = [self.monitor.run(), self.calls.measure_lag()]
        if self.connections is not None:
            work.append(self.connections.run())
        self._running = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Stop the background tasks, and write pending refused calls and token uses."""
        for task in self._running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.monitor.flush(all=True)

    def add_generic_rpc_handlers(self, handlers: Sequence[GenericHandler]) -> None:
        """Add a service; generated code calls this on a server."""
        self._services += handlers

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Handler]) -> None:
        """Ignore the second registration of the same methods by newer generated code."""

    def service(self, details: grpc.HandlerCallDetails) -> Handler | None:
        """Return the wrapped handler of a method; None if there is no such method."""
        wrapped = self._wrapped.get(details.method)
        if wrapped is None:
            found = [handler for one in self._services if (handler := one.service(details)) is not None]
            if not found:
                return None
            wrapped = self._wrapped[details.method] = self._wrap(found[0], details.method)
        known, unknown = wrapped
        if known is not None and self.authenticator.has_known_credential(details.invocation_metadata):
            return known
        return unknown

    def _wrap(self, handler: Handler, path: str) -> tuple[Handler | None, Handler]:
        """Return handlers for callers with a credential that was valid before, and for all others."""
        takes, gives = handler.request_streaming, handler.response_streaming
        method = Method.of(path, takes_stream=takes, gives_stream=gives)
        formats = method.reader(handler.request_deserializer), handler.response_serializer
        from_one = grpc.unary_stream_rpc_method_handler if gives else grpc.unary_unary_rpc_method_handler
        from_stream = grpc.stream_stream_rpc_method_handler if gives else grpc.stream_unary_rpc_method_handler
        if takes:
            inner: Behaviour | None = handler.stream_stream if gives else handler.stream_unary
            assert inner is not None
            return None, from_stream(partial(self._upload, method, inner), *formats)
        inner = handler.unary_stream if gives else handler.unary_unary
        assert inner is not None
        answer = partial(self._answer_anyone if method.row is Access.ANYONE else self._answer, method, inner)

        async def answer_unknown(messages: AsyncIterator[Request], context: Context) -> Response:
            message = await self._read(Call.of(method, context), messages)
            return await answer(message, context)

        return from_one(answer, *formats), from_stream(answer_unknown, *formats)

    async def _answer(self, method: Method, inner: Behaviour, message: Request, context: Context) -> Response:
        """Serve a call with one request. A stream of responses is written to the context."""
        call, watched = Call.of(method, context, message), None
        try:
            await self._admit(call)
            if not method.stays:
                return await self.calls.run(inner, call)
            with self.monitor.watching(call.principal, lambda: self.authenticator.recheck(call)) as watched:
                if not method.gives_stream:
                    return await inner(message, context)
                with self.limiter.stream(call.principal.name):
                    return await _write_all(inner(message, context), context)
        except BaseException as error:
            await self._fail(call, error, watched)
            raise

    async def _upload(
        self, method: Method, inner: Behaviour, messages: AsyncIterator[Request], context: Context
    ) -> Response:
        """Serve a call with a stream of requests. The caller is known before anything is read."""
        call, watched = Call.of(method, context), None
        try:
            if waiting := self._check_claim(call):
                await waiting
            await self.authenticator.authenticate_by_metadata(call)
            async with self._uploads.slot(call.principal.name):
                with self._watching_upload(call) as watched:
                    answer = inner(self._admitted(_begun(messages), call), context)
                    if method.gives_stream:
                        return await _write_all(answer, context)
                    return await self.calls.within_upload_deadline(answer)
        except TimeoutError as error:
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, str(error) or "no message came")
        except BaseException as error:
            await self._fail(call, error, watched)
            raise

    async def _answer_anyone(self, method: Method, inner: Behaviour, message: Request, context: Context) -> Response:
        """Serve a call of the health service: check only that the message is valid, and count streams."""
        call = Call.of(method, context, message)
        try:
            call.check_message()
            if not method.gives_stream:
                return await inner(message, context)
            with self.limiter.stream(f"health {network_of(call.address)}"):
                return await inner(message, context)  # it writes to the context itself
        except RainbowError as error:
            return await context.abort(*status_of(error))

    async def _admit(self, call: Call) -> None:
        """Run the checks; raise the error of the first that refuses the call."""
        for check in self._checks:
            waiting = check(call)
            if waiting is not None:
                await waiting

    async def _admitted(self, messages: AsyncIterator[Request], call: Call) -> AsyncIterator[Request]:
        """Yield a stream of requests after admitting the call by the first; check each."""
        first = True
        async for call.message in messages:
            if first:
                await self._admit(call)
                first = False
            call.check_message()
            yield call.message

    async def _read(self, call: Call, messages: AsyncIterator[Request]) -> Request:
        """Return the message of an unknown caller; abort the call if it is refused before that."""
        seconds = READ_TIMEOUT_SECONDS
        try:
            if call.method.by_metadata:
                await self.authenticator.authenticate_by_metadata(call)
            elif self.connections is None or not self.connections.is_authenticated(call.peer):
                if call.method.largest > MAX_MESSAGE_BYTES:
                    seconds = self.calls.limits.upload_deadline
                async with self._reads.slot(network_of(call.address)):
                    return await _first(messages, seconds)
            return await _first(messages, seconds)
        except RainbowError as error:
            return await self._refuse(call, error)
        except TimeoutError:
            message = f"the message did not come within {seconds:g} seconds"
            return await call.context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    def _check_claim(self, call: Call) -> Awaitable[None] | None:
        """Wait until no other server can have taken the claim; raise Unavailable if one has."""
        return None if self.claim is None or self.claim.is_confirmed() else self.claim.confirm()

    def _count(self, call: Call) -> None:
        """Count the call; raise Exhausted above the rate of its caller."""
        by = call.principal
        if by.kind is not None and self.connections is not None:
            self.connections.mark_authenticated(call.peer)
        if not by.admin:
            self.limiter.count_call(network_of(call.address) if by.kind is None else by.name, self._clock.now())

    def _watching_upload(self, call: Call) -> contextlib.AbstractContextManager[OpenCall | None]:
        if call.principal.kind is CredentialKind.JOIN:  # the call itself uses it up
            return contextlib.nullcontext()

        async def again() -> Principal:
            return await self.authenticator.authenticate_by_metadata(call.anonymous())

        return self.monitor.watching(call.principal, again)

    async def _fail(self, call: Call, error: BaseException, watched: OpenCall | None) -> None:
        """Abort a failed call with the status of its error; return if gRPC knows what to do with it."""
        if isinstance(error, RainbowError):
            await self._refuse(call, error)
        elif isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if watched is not None and watched.cut and task is not None:  # by the monitor, not by the client
                task.uncancel()
                await self._refuse(call, Unauthenticated(_REVOKED))
        elif isinstance(error, Exception) and not isinstance(error, grpc.RpcError | aio.AbortError):
            log.exception("internal error in a call")  # any bug: in full here, without details in the response
            await call.context.abort(grpc.StatusCode.INTERNAL, "internal error; see the server's log")

    async def _refuse(self, call: Call, error: RainbowError) -> NoReturn:
        if isinstance(error, Unauthenticated | Denied):
            self._record_refusal(call, error)
        await call.context.abort(*status_of(error))

    def _record_refusal(self, call: Call, error: RainbowError) -> None:
        actor = acting()
        if isinstance(error, Unauthenticated):
            self.limiter.count_refusal(network_of(actor.address), self._clock.now())
        named = "" if call.method.takes_stream else call.method.object(call.message)
        if self._fleet.get(named) is None:
            named = ""  # it may be a secret in the wrong field: keep it out of the log
        who, why = actor.principal, type(error).__name__.lower()
        self._refusals.add(RefusedCall(actor.address, who.name, who.credential, call.method.path, named, why))


async def _write_all(responses: AsyncIterator[Response], context: Context) -> None:
    async with contextlib.aclosing(responses) as stream:  # type: ignore[type-var]  # the handlers are generators
        async for message in stream:
            await context.write(message)


async def _first(messages: AsyncIterator[Request], seconds: float) -> Request:
    async with asyncio.timeout(seconds):
        async for message in messages:
            return message
    raise Invalid("the call carries no message")


async def _begun(messages: AsyncIterator[Request]) -> AsyncIterator[Request]:
    """Yield the messages of the stream; raise TimeoutError if the first one is late."""
    yield await _first(messages, READ_TIMEOUT_SECONDS)
    async for message in messages:
        yield message

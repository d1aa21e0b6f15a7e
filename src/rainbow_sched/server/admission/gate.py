"""The entry of every call: authenticate and authorize the caller, enforce limits, map errors to gRPC statuses.

Handlers only translate and delegate; they get the caller from `caller()` and check no rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from grpc import aio

from rainbow_sched.model.credential import CredentialKind, Principal
from rainbow_sched.model.errors import Denied, RainbowError, Unauthenticated
from rainbow_sched.server.admission.connections import ConnectionLimiter, network_of
from rainbow_sched.server.admission.credentials import Authenticator, address_of
from rainbow_sched.server.admission.limits import AdmissionLimits, RateLimiter
from rainbow_sched.server.admission.methods import Method
from rainbow_sched.server.admission.open_calls import OpenCall, OpenCallMonitor, OpenCalls
from rainbow_sched.server.admission.policy import Anyone
from rainbow_sched.server.admission.pre_auth import ConcurrencyLimit, PreAuthReader
from rainbow_sched.server.admission.unary_calls import CallGuard
from rainbow_sched.server.status import status_of
from rainbow_sched.service.access.audit import ANONYMOUS, RefusedCall, RefusedCallCounter, act_as, acting
from rainbow_sched.service.core import Core
from rainbow_sched.store.claim_keeper import Claim

if TYPE_CHECKING:  # the stubs make these generic, the classes themselves are not
    GenericHandler = grpc.GenericRpcHandler[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    GenericHandler = grpc.GenericRpcHandler
    Handler = grpc.RpcMethodHandler

log = logging.getLogger(__name__)
MAX_UPLOADS, MAX_UPLOADS_PER_PRINCIPAL = 64, 16  # concurrent; each is buffered until it is complete
_REVOKED = "the credential of this call was revoked or has fewer rights than before; connect again"


def caller() -> Principal:
    """Return the caller of the current call."""
    return acting().principal


class Gate(GenericHandler):
    """The generic handler of the server, to which all services are added.

    It wraps each method once. An interceptor would do the same, but would cost one more coroutine per call.
    """

    def __init__(self, core: Core, *, limits: AdmissionLimits | None = None, anonymous_satisfy: bool = False) -> None:
        self._clock, self._fleet = core.clock, core.fleet
        self.limiter = RateLimiter(limits or AdmissionLimits())
        self._authenticator = Authenticator(
            core.credential_resolver, core.clock, self.limiter, anonymous_satisfy=anonymous_satisfy
        )
        self._open, self._refusals = OpenCalls(), RefusedCallCounter()
        self.monitor = OpenCallMonitor(core, self._open, self._refusals)
        self.connections: ConnectionLimiter | None = None  # set when the port is open
        self.claim: Claim | None = None  # None: no other server can serve the database
        self._uploads = ConcurrencyLimit(MAX_UPLOADS, MAX_UPLOADS_PER_PRINCIPAL, self.limiter.limits.upload_deadline)
        self._pre_auth = PreAuthReader(self._authenticator, self.limiter, self._reject)
        self._call_guard = CallGuard(self.limiter, core.clock)
        self._services: list[Any] = []  # the services
        self._wrapped: dict[str, Handler] = {}
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the background tasks."""
        work = [self.monitor.run(), self.limiter.lag.run()]
        if self.connections is not None:
            self._pre_auth.known = self.connections.is_authenticated
            work.append(self.connections.run())
        self._running = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """Stop the background tasks, and write pending refused calls and token uses."""
        for task in self._running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.monitor.flush(all=True)

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Add a service; generated code calls this on a server."""
        self._services += handlers

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Any]) -> None:
        """Ignore the second registration of the same methods by newer generated code."""

    def service(self, details: Any) -> Handler | None:
        """Return the wrapped handler of a method; None if there is no such method."""
        wrapped = self._wrapped.get(details.method)
        if wrapped is None:
            found = [handler for one in self._services if (handler := one.service(details)) is not None]
            if not found:
                return None
            wrapped = self._wrapped[details.method] = self._wrap(found[0], details.method)
        chosen: Handler = self._pre_auth.choose(details.method, wrapped, details.invocation_metadata)
        return chosen

    def _wrap(self, handler: Any, path: str) -> Handler:
        method = Method.of(path, takes_stream=handler.request_streaming, gives_stream=handler.response_streaming)
        reader = method.reader(handler.request_deserializer)
        if isinstance(method.row, Anyone):
            return self._unauthenticated(handler, method, reader)
        if handler.request_streaming and handler.response_streaming:
            make, behaviour = grpc.stream_stream_rpc_method_handler, self._streams(handler.stream_stream, method, True)
        elif handler.request_streaming:
            make, behaviour = grpc.stream_unary_rpc_method_handler, self._answers(handler.stream_unary, method, True)
        elif handler.response_streaming:
            make, behaviour = grpc.unary_stream_rpc_method_handler, self._streams(handler.unary_stream, method, False)
        else:
            make, behaviour = grpc.unary_unary_rpc_method_handler, self._answers(handler.unary_unary, method, False)
        return make(behaviour, reader, handler.response_serializer)

    def _answers(self, inner: Any, method: Method, incoming: bool) -> Any:
        """Wrap a method with one response."""

        async def answer(request: Any, context: Any) -> Any:
            call: OpenCall | None = None
            try:
                if self.claim is not None and not self.claim.is_confirmed():
                    await self.claim.confirm()
                if incoming:
                    async with self._uploading(context) as call:
                        return await self._with_upload_deadline(
                            inner(self._admitted_stream(request, method, context), context), context
                        )
                principal = await self._admit(method, request, context)
                if not method.stays:
                    return await self._call_guard.answer(inner, method, request, context)
                with self._open.holding(principal, self._reauthenticate(method, request, context)) as call:
                    return await inner(request, context)
            except RainbowError as error:
                await self._abort(method, None if incoming else request, context, error)
            except asyncio.CancelledError:
                await self._cancelled(call, method, context)
                raise
            except (grpc.RpcError, aio.AbortError):
                raise
            except Exception:  # any bug: log it in full and respond with INTERNAL
                await _internal_error(context)

        return answer

    def _unauthenticated(self, handler: Any, method: Method, reader: Callable[[bytes], Any]) -> Handler:
        """Wrap a method of the health service: check only that the message is valid, and count streams."""

        async def answer(request: Any, context: Any) -> Any:
            try:
                method.check(request)
            except RainbowError as error:
                await context.abort(*status_of(error))
            return await handler.unary_unary(request, context)

        async def answers(request: Any, context: Any) -> Any:
            key = f"health {network_of(address_of(context.peer()))}"
            try:
                method.check(request)
                self.limiter.open_stream(key)
            except RainbowError as error:
                await context.abort(*status_of(error))
            try:
                await handler.unary_stream(request, context)
            finally:
                self.limiter.close_stream(key)

        if method.stays:
            return grpc.unary_stream_rpc_method_handler(answers, reader, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(answer, reader, handler.response_serializer)

    def _streams(self, inner: Any, method: Method, incoming: bool) -> Any:
        """Wrap a method with a stream of responses."""

        async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
            call: OpenCall | None = None
            key = ""
            try:
                if self.claim is not None and not self.claim.is_confirmed():
                    await self.claim.confirm()
                if incoming:
                    held = self._uploading(context)
                    request = self._admitted_stream(request, method, context)
                else:
                    principal = await self._admit(method, request, context)
                    self.limiter.open_stream(principal.name)
                    key = principal.name
                    held = self._monitored(principal, self._reauthenticate(method, request, context))
                async with held as call, contextlib.aclosing(inner(request, context)) as stream:
                    async for message in stream:
                        yield message
            except RainbowError as error:
                await self._abort(method, None if incoming else request, context, error)
            except asyncio.CancelledError:
                await self._cancelled(call, method, context)
                raise
            except (GeneratorExit, grpc.RpcError, aio.AbortError):
                raise
            except Exception:  # any bug: log it in full and respond with INTERNAL
                await _internal_error(context)
            finally:
                if key:
                    self.limiter.close_stream(key)

        return answers

    @contextlib.asynccontextmanager
    async def _uploading(self, context: Any) -> AsyncIterator[OpenCall | None]:
        """Authenticate the caller of a request stream before anything is read, and monitor the call."""
        address = address_of(context.peer())
        act_as(ANONYMOUS, address)  # the first message is authorized later
        principal = await self._authenticator.identify_by_metadata(context, address)
        async with self._uploads.slot(principal.name):
            if principal.kind is CredentialKind.JOIN:  # the call itself uses it up
                yield None
            else:
                async with self._monitored(
                    principal, lambda: self._authenticator.identify_by_metadata(context, address)
                ) as call:
                    yield call

    @contextlib.asynccontextmanager
    async def _monitored(
        self, principal: Principal, again: Callable[[], Awaitable[Principal]]
    ) -> AsyncIterator[OpenCall | None]:
        with self._open.holding(principal, again) as call:
            yield call

    async def _with_upload_deadline(self, work: Awaitable[Any], context: Any) -> Any:
        """Await `work` within the deadline of uploads."""
        seconds = self.limiter.limits.upload_deadline
        try:
            async with asyncio.timeout(seconds) as timer:
                return await work
        except TimeoutError:
            message = f"the upload did not end within {seconds:g} seconds" if timer.expired() else "no message came"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    async def _admitted_stream(self, messages: AsyncIterator[Any], method: Method, context: Any) -> AsyncIterator[Any]:
        """Yield a stream of requests after authorizing the first."""
        first = True
        async for message in messages:
            if first:
                await self._admit(method, message, context)
                first = False
            method.check(message)
            yield message

    async def _admit(self, method: Method, message: Any, context: Any) -> Principal:
        """Authenticate, authorize and count the caller of a call."""
        method.check(message)
        peer = context.peer()
        address = address_of(peer)
        principal = self._authenticator.admit_cached(method.row, message, context, address)
        if principal is None:
            principal = await self._authenticator.admit(method.row, message, context, address)
        if principal.kind is not None and self.connections is not None:
            self.connections.mark_authenticated(peer)
        if not principal.admin:
            key = network_of(address) if principal.kind is None else principal.name
            self.limiter.count_call(key, self._clock.now())
        return principal

    def _reauthenticate(self, method: Method, message: Any, context: Any) -> Callable[[], Awaitable[Principal]]:
        """Return a function that authenticates the caller of an open call again."""
        address = address_of(context.peer())
        return lambda: self._authenticator.admit(method.row, message, context, address)

    async def _cancelled(self, call: OpenCall | None, method: Method, context: Any) -> None:
        """Send a status if the monitor cancelled the call; otherwise the client did."""
        task = asyncio.current_task()
        if call is not None and call.cut and task is not None:
            task.uncancel()
            await self._abort(method, None, context, Unauthenticated(_REVOKED))

    async def _reject(self, path: str, context: Any, error: RainbowError) -> NoReturn:
        await self._abort(Method.of(path), None, context, error)

    async def _abort(self, method: Method, message: Any, context: Any, error: RainbowError) -> NoReturn:
        if isinstance(error, Unauthenticated | Denied):
            self._record_refusal(method, message, error)
        code, text, trailing = status_of(error)
        await context.abort(code, text, trailing)
        raise error  # not reached: abort raises

    def _record_refusal(self, method: Method, message: Any, error: RainbowError) -> None:
        actor = acting()
        if isinstance(error, Unauthenticated):
            self.limiter.count_refusal(network_of(actor.address), self._clock.now())
        who, named = actor.principal, method.object(message)
        if self._fleet.get(named) is None:
            named = ""  # it may be a secret in the wrong field: keep it out of the log
        why = type(error).__name__.lower()
        self._refusals.add(RefusedCall(actor.address, who.name, who.credential, method.path, named, why))


async def _internal_error(context: Any) -> NoReturn:
    """Log an unexpected exception in full, and respond without details."""
    log.exception("internal error in a call")
    await context.abort(grpc.StatusCode.INTERNAL, "internal error; see the server's log")
    raise AssertionError("abort raises")

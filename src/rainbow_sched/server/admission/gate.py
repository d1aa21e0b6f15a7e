"""The gate: every call passes here; it names the caller, holds the call against the policy, maps errors to statuses.

Handlers behind it translate and delegate; they ask `caller()` who is calling and never
check a right themselves.
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
UPLOADS_AT_A_TIME, UPLOADS_EACH = 64, 16  # in all and of one principal: a graph is held until all of it is there
_CUT = "the credential of this call was revoked or opens less than before; connect again"


def caller() -> Principal:
    """Who is calling."""
    return acting().principal


class Gate(GenericHandler):
    """Stands before all services: they are added here, and it alone to the server.

    Wraps each method once and keeps it. An interceptor would do the same, but costs every call a coroutine more.
    """

    def __init__(self, core: Core, *, limits: AdmissionLimits | None = None, anonymous_satisfy: bool = False) -> None:
        self._clock, self._fleet = core.clock, core.fleet
        self.traffic = RateLimiter(limits or AdmissionLimits())
        self._callers = Authenticator(
            core.credential_resolver, core.clock, self.traffic, anonymous_satisfy=anonymous_satisfy
        )
        self._open, self._refusals = OpenCalls(), RefusedCallCounter()
        self.keeper = OpenCallMonitor(core, self._open, self._refusals)
        self.connections: ConnectionLimiter | None = None  # known when the port is open
        self.claim: Claim | None = None  # without one, nobody else can serve the database
        self._uploads = ConcurrencyLimit(UPLOADS_AT_A_TIME, UPLOADS_EACH, self.traffic.limits.upload_deadline)
        self._doorway = PreAuthReader(self._callers, self.traffic, self._turned_away)
        self._under_way = CallGuard(self.traffic, core.clock)
        self._behind: list[Any] = []  # the services
        self._wrapped: dict[str, Handler] = {}
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to look after open calls and the load."""
        work = [self.keeper.run(), self.traffic.lag.run()]
        if self.connections is not None:
            self._doorway.known = self.connections.knows
            work.append(self.connections.run())
        self._running = [asyncio.create_task(one) for one in work]

    async def stop(self) -> None:
        """End that, and write what was gathered."""
        for task in self._running:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.keeper.flush(all=True)

    def add_generic_rpc_handlers(self, handlers: Sequence[Any]) -> None:
        """Take a service in: what generated code calls on a server."""
        self._behind += handlers

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, Any]) -> None:
        """The same methods once more, as newer generated code does: they are known already."""

    def service(self, details: Any) -> Handler | None:
        """The handler of a method, behind the gate; None if there is no such method."""
        wrapped = self._wrapped.get(details.method)
        if wrapped is None:
            found = [handler for one in self._behind if (handler := one.service(details)) is not None]
            if not found:
                return None
            wrapped = self._wrapped[details.method] = self._wrap(found[0], details.method)
        chosen: Handler = self._doorway.choose(details.method, wrapped, details.invocation_metadata)
        return chosen

    def _wrap(self, handler: Any, path: str) -> Handler:
        method = Method.of(path, takes_stream=handler.request_streaming, gives_stream=handler.response_streaming)
        reader = method.reader(handler.request_deserializer)
        if isinstance(method.row, Anyone):
            return self._open_to_all(handler, method, reader)
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
        """Around a method with one answer."""

        async def answer(request: Any, context: Any) -> Any:
            call: OpenCall | None = None
            try:
                if self.claim is not None and not self.claim.is_confirmed():
                    await self.claim.confirm()
                if incoming:
                    async with self._uploading(context) as call:
                        return await self._within(inner(self._checked(request, method, context), context), context)
                principal = await self._admit(method, request, context)
                if not method.stays:
                    return await self._under_way.answer(inner, method, request, context)
                with self._open.holding(principal, self._again(method, request, context)) as call:
                    return await inner(request, context)
            except RainbowError as error:
                await self._abort(method, None if incoming else request, context, error)
            except asyncio.CancelledError:
                await self._cancelled(call, method, context)
                raise
            except (grpc.RpcError, aio.AbortError):
                raise
            except Exception:  # the edge: a fault of ours is logged whole and told as INTERNAL
                await _fault(context)

        return answer

    def _open_to_all(self, handler: Any, method: Method, reader: Callable[[bytes], Any]) -> Handler:
        """Health as it is: nothing stands before it but a message that can be read and, if it stays open, a count."""

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
                self.traffic.follow(key)
            except RainbowError as error:
                await context.abort(*status_of(error))
            try:
                await handler.unary_stream(request, context)
            finally:
                self.traffic.unfollow(key)

        if method.stays:
            return grpc.unary_stream_rpc_method_handler(answers, reader, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(answer, reader, handler.response_serializer)

    def _streams(self, inner: Any, method: Method, incoming: bool) -> Any:
        """Around a method with many answers."""

        async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
            call: OpenCall | None = None
            key = ""
            try:
                if self.claim is not None and not self.claim.is_confirmed():
                    await self.claim.confirm()
                if incoming:
                    held = self._uploading(context)
                    request = self._checked(request, method, context)
                else:
                    principal = await self._admit(method, request, context)
                    self.traffic.follow(principal.name)
                    key = principal.name
                    held = self._held(principal, self._again(method, request, context))
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
            except Exception:  # the edge: a fault of ours is logged whole and told as INTERNAL
                await _fault(context)
            finally:
                if key:
                    self.traffic.unfollow(key)

        return answers

    @contextlib.asynccontextmanager
    async def _uploading(self, context: Any) -> AsyncIterator[OpenCall | None]:
        """A stream of requests: its caller says who they are before anything is read, and is looked after."""
        address = address_of(context.peer())
        act_as(ANONYMOUS, address)  # what they may do is seen by the first message
        principal = await self._callers.introduce(context, address)
        async with self._uploads.one(principal.name):
            if principal.kind is CredentialKind.JOIN:  # it ends with the very call that uses it
                yield None
            else:
                async with self._held(principal, lambda: self._callers.introduce(context, address)) as call:
                    yield call

    @contextlib.asynccontextmanager
    async def _held(
        self, principal: Principal, again: Callable[[], Awaitable[Principal]]
    ) -> AsyncIterator[OpenCall | None]:
        with self._open.holding(principal, again) as call:
            yield call

    async def _within(self, work: Awaitable[Any], context: Any) -> Any:
        """What an upload leads to, if it comes to an end."""
        seconds = self.traffic.limits.upload_deadline
        try:
            async with asyncio.timeout(seconds) as timer:
                return await work
        except TimeoutError:
            message = f"no end of the upload within {seconds:g} seconds" if timer.expired() else "no message came"
            return await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, message)

    async def _checked(self, messages: AsyncIterator[Any], method: Method, context: Any) -> AsyncIterator[Any]:
        """A stream of requests, admitted by its first message."""
        first = True
        async for message in messages:
            if first:
                await self._admit(method, message, context)
                first = False
            method.check(message)
            yield message

    async def _admit(self, method: Method, message: Any, context: Any) -> Principal:
        """Name the caller for this call, or refuse it."""
        method.check(message)
        peer = context.peer()
        address = address_of(peer)
        principal = self._callers.admit_known(method.row, message, context, address)
        if principal is None:
            principal = await self._callers.admit(method.row, message, context, address)
        if principal.kind is not None and self.connections is not None:
            self.connections.welcome(peer)
        if not principal.admin:
            key = network_of(address) if principal.kind is None else principal.name
            self.traffic.pace(key, self._clock.now())
        return principal

    def _again(self, method: Method, message: Any, context: Any) -> Callable[[], Awaitable[Principal]]:
        """How to name the caller of an open call once more."""
        address = address_of(context.peer())
        return lambda: self._callers.admit(method.row, message, context, address)

    async def _cancelled(self, call: OpenCall | None, method: Method, context: Any) -> None:
        """Tell a caller that was cut; anybody else who is cancelled went away."""
        task = asyncio.current_task()
        if call is not None and call.cut and task is not None:
            task.uncancel()
            await self._abort(method, None, context, Unauthenticated(_CUT))

    async def _turned_away(self, path: str, context: Any, error: RainbowError) -> NoReturn:
        await self._abort(Method.of(path), None, context, error)

    async def _abort(self, method: Method, message: Any, context: Any, error: RainbowError) -> NoReturn:
        if isinstance(error, Unauthenticated | Denied):
            self._refused(method, message, error)
        code, text, trailing = status_of(error)
        await context.abort(code, text, trailing)
        raise error  # abort raises; this line tells the reader and the checker so

    def _refused(self, method: Method, message: Any, error: RainbowError) -> None:
        actor = acting()
        if isinstance(error, Unauthenticated):
            self.traffic.refuse(network_of(actor.address), self._clock.now())
        who, named = actor.principal, method.object(message)
        if self._fleet.get(named) is None:
            named = ""  # whatever it is, perhaps a secret in the wrong place, it stays out of the log
        why = type(error).__name__.lower()
        self._refusals.add(RefusedCall(actor.address, who.name, who.credential, method.path, named, why))


async def _fault(context: Any) -> NoReturn:
    """A fault of our own: logged whole here, and told without details."""
    log.exception("a call failed by our own fault")
    await context.abort(grpc.StatusCode.INTERNAL, "the server failed on this call; its log says why")
    raise AssertionError("abort raises")

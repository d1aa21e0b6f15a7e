"""The gate: every call passes here; it names the caller, holds the call against the policy, maps errors to statuses.

Handlers behind it translate and delegate; they ask `caller()` who is calling and never
check a right themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NoReturn

import grpc
from grpc import aio

from rainbow.model.credential import Kind, Principal
from rainbow.model.errors import Denied, RainbowError, Unauthenticated
from rainbow.server.policy import (
    POLICY,
    Anyone,
    Caller,
    InMessage,
    LocalOrConfigured,
    Nobody,
    Row,
    Scoped,
    Submitter,
    TokensInMessage,
)
from rainbow.server.status import status_of
from rainbow.service.access import ANONYMOUS, Recogniser, need
from rainbow.service.clock import Clock

if TYPE_CHECKING:  # the stubs make these generic, the classes themselves are not
    Interceptor = aio.ServerInterceptor[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    Interceptor = aio.ServerInterceptor
    Handler = grpc.RpcMethodHandler

log = logging.getLogger(__name__)
_caller: ContextVar[Principal] = ContextVar("caller", default=ANONYMOUS)
_ASK = "this call needs a credential: set RAINBOW_TOKEN, or token in the configuration file"


def caller() -> Principal:
    """Who is calling."""
    return _caller.get()


class Gate(Interceptor):
    """Wraps each method once; the wrapped handler is kept."""

    def __init__(self, recogniser: Recogniser, clock: Clock, *, anonymous_satisfy: bool = False) -> None:
        self._recogniser, self._clock = recogniser, clock
        self._anonymous_satisfy = anonymous_satisfy
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]], details: Any
    ) -> Handler:
        """The handler of a method, behind the gate."""
        method = details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            handler = await continuation(details)
            if handler is None:
                return handler
            wrapped = self._wrapped[method] = self._wrap(handler, POLICY.get(method, Nobody()))
        return wrapped

    def _wrap(self, handler: Any, row: Row) -> Handler:
        if handler.request_streaming and handler.response_streaming:
            make, behaviour = grpc.stream_stream_rpc_method_handler, self._streams(handler.stream_stream, row, True)
        elif handler.request_streaming:
            make, behaviour = grpc.stream_unary_rpc_method_handler, self._answers(handler.stream_unary, row, True)
        elif handler.response_streaming:
            make, behaviour = grpc.unary_stream_rpc_method_handler, self._streams(handler.unary_stream, row, False)
        else:
            make, behaviour = grpc.unary_unary_rpc_method_handler, self._answers(handler.unary_unary, row, False)
        return make(behaviour, handler.request_deserializer, handler.response_serializer)

    def _answers(self, inner: Any, row: Row, incoming: bool) -> Any:
        """Around a method with one answer."""

        async def answer(request: Any, context: Any) -> Any:
            try:
                if incoming:
                    return await inner(self._checked(request, row, context), context)
                await self._admit(row, request, context)
                return await inner(request, context)
            except RainbowError as error:
                await _abort(context, error)
            except (asyncio.CancelledError, grpc.RpcError, aio.AbortError):
                raise
            except Exception:
                await _fault(context)

        return answer

    def _streams(self, inner: Any, row: Row, incoming: bool) -> Any:
        """Around a method with many answers."""

        async def answers(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                if incoming:
                    request = self._checked(request, row, context)
                else:
                    await self._admit(row, request, context)
                async with contextlib.aclosing(inner(request, context)) as stream:
                    async for message in stream:
                        yield message
            except RainbowError as error:
                await _abort(context, error)
            except (asyncio.CancelledError, GeneratorExit, grpc.RpcError, aio.AbortError):
                raise
            except Exception:
                await _fault(context)

        return answers

    async def _checked(self, messages: AsyncIterator[Any], row: Row, context: Any) -> AsyncIterator[Any]:
        """A stream of requests, admitted by its first message."""
        first = True
        async for message in messages:
            if first:
                await self._admit(row, message, context)
                first = False
            yield message

    async def _admit(self, row: Row, message: Any, context: Any) -> None:
        """Name the caller for this call, or refuse it."""
        if isinstance(row, Anyone):
            return
        if isinstance(row, Nobody):
            raise Unauthenticated("this call is not open to anyone; use rainbow.v2")
        if isinstance(row, InMessage):
            principal = await self._recognise(row.secret(message))
            need(principal, row.verb, row.named(message))
        elif isinstance(row, TokensInMessage):
            principal = await self._by_tokens([(entry.name, entry.token) for entry in message.clusters])
        else:
            principal = await self._by_metadata(context)
            self._hold_against(row, principal, message, context)
        _caller.set(principal)

    def _hold_against(self, row: Row, principal: Principal, message: Any, context: Any) -> None:
        if isinstance(row, LocalOrConfigured):
            if principal.kind is None and not self._anonymous_satisfy and not _is_loopback(context.peer()):
                raise Unauthenticated(_ASK)
        elif principal.kind is None:
            raise Unauthenticated(_ASK)
        elif isinstance(row, Scoped):
            need(principal, row.verb, row.named(message))
        elif isinstance(row, Submitter):
            if not principal.admin and not any(scope.startswith("submit:") for scope in principal.scopes):
                raise Denied("your credential opens no cluster for submission")
        else:
            assert isinstance(row, Caller)

    async def _recognise(self, text: str) -> Principal:
        return await self._recogniser.recognise(text, self._clock.now())

    async def _by_metadata(self, context: Any) -> Principal:
        """The caller by bearer token; cluster tokens beside it open further clusters for submission."""
        principal, tokens = ANONYMOUS, []
        for key, value in context.invocation_metadata() or ():
            if key == "authorization":
                principal = await self._recognise(_bearer(value))
            elif key == "rainbow-cluster-token":
                tokens.append(tuple(str(value).partition("=")[::2]))
        if not tokens:
            return principal
        opened = await self._by_tokens(tokens)
        if principal.kind is None:
            return opened
        more = frozenset(scope for scope in opened.scopes if scope.startswith("submit:"))
        return Principal(
            name=principal.name,
            kind=principal.kind,
            credential=principal.credential,
            scopes=principal.scopes | more,
            groups=principal.groups,
        )

    async def _by_tokens(self, tokens: list[tuple[str, ...]]) -> Principal:
        """A submitter by the tokens of clusters; empty entries are skipped, one bad token refuses the call."""
        given = [(name, token) for name, token in tokens if name or token]
        if not given:
            raise Unauthenticated("name at least one cluster with its token")
        scopes: set[str] = set()
        names = []
        for name, token in given[:1000]:
            principal = await self._recognise(token)
            need(principal, "submit", name)
            scopes |= {f"submit:{name}", "job:read:own", "job:cancel:own"}
            names.append(principal.name)
        return Principal(name=sorted(names)[0], kind=Kind.SUBMIT, scopes=frozenset(scopes))


def _bearer(value: str | bytes) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    kind, _, token = text.partition(" ")
    return token.strip() if kind.lower() == "bearer" else text


def _is_loopback(peer: str) -> bool:
    """True for a caller on this machine: `ipv4:127.0.0.1:4711`, `ipv6:[::1]:4711`, `unix:`."""
    if peer.startswith("unix:"):
        return True
    _, _, rest = peer.partition(":")
    host = rest.rpartition(":")[0].replace("%5B", "[").replace("%5D", "]").strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _abort(context: Any, error: RainbowError) -> NoReturn:
    code, message, trailing = status_of(error)
    await context.abort(code, message, trailing)
    raise error  # abort raises; this line tells the reader and the checker so


async def _fault(context: Any) -> NoReturn:
    """A fault of our own: logged whole here, and told without details."""
    log.exception("a call failed by our own fault")
    await context.abort(grpc.StatusCode.INTERNAL, "the server failed on this call; its log says why")
    raise AssertionError("abort raises")

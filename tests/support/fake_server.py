"""A small gRPC server with scripted answers, in a thread of its own, to test client and command line against."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from rainbow_sched.client import access, clusters, jobs
from rainbow_sched.client.connection import Backoff, Rpc, Timeouts

QUICK = Timeouts(backoff=Backoff(first=0.001, cap=0.002))


@dataclass(frozen=True)
class Refusal:
    """Answer with a gRPC status, as the real server does: the class's name in the trailing metadata."""

    code: grpc.StatusCode
    message: str = ""
    error: str = ""
    trailing: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class InitialMetadata:
    """What a stream says of itself before its first message; it goes on when that was heard."""

    metadata: tuple[tuple[str, str], ...]
    heard: threading.Event


@dataclass(frozen=True)
class ReceivedCall:
    """One call that arrived."""

    call: str
    requests: list[Any]
    metadata: list[tuple[str, str]]

    @property
    def request(self) -> Any:
        return self.requests[0]

    @property
    def bearer(self) -> str:
        return dict(self.metadata).get("authorization", "")


@dataclass
class FakeServer:
    """`answers["Jobs/Get"]` is a message, a Refusal, a Script of these, or a function of the request.

    For a stream each answer is a list of messages, perhaps beginning with a InitialMetadata and ending in a Refusal.
    """

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[ReceivedCall] = field(default_factory=list)
    port: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def calls(self, name: str) -> list[ReceivedCall]:
        return [one for one in self.asked if one.call == name]

    def only(self, name: str) -> ReceivedCall:
        (one,) = self.calls(name)
        return one

    def answer_to(self, name: str, request: Any) -> Any:
        answer = self.answers.get(name, Refusal(grpc.StatusCode.UNIMPLEMENTED, f"no answer for {name}"))
        if isinstance(answer, Script):
            answer = answer.following()
        return answer(request) if callable(answer) else answer


class Script:
    """Answers to be given one after the other; the last one stays."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def following(self) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


STREAMED_UP = {clusters.REGISTER.path, clusters.PUT_SUBSYSTEM.path, clusters.REPLACE_GRAPH.path}
STREAMED_DOWN = {jobs.WATCH.path, jobs.LOGS.path}
TABLE: list[Rpc[Any, Any]] = [
    value for module in (access, clusters, jobs) for value in vars(module).values() if isinstance(value, Rpc)
]


def _handler(server: FakeServer, rpc: Rpc[Any, Any]) -> Any:
    name = rpc.path.removeprefix("/rainbow.v2.")

    def record(context: Any, requests: list[Any]) -> None:
        pairs = [(key, str(value)) for key, value in context.invocation_metadata() if not key.startswith("user-agent")]
        server.asked.append(ReceivedCall(name, requests, pairs))

    async def give(context: Any, answer: Any) -> Any:
        if isinstance(answer, Refusal):
            trailing = (*((("rainbow-error", answer.error),) if answer.error else ()), *answer.trailing)
            await context.abort(answer.code, answer.message, trailing)
        return answer

    async def unary(request: Any, context: Any) -> Any:
        record(context, [request])
        return await give(context, server.answer_to(name, request))

    async def upload(requests: Any, context: Any) -> Any:
        received = [one async for one in requests]
        record(context, received)
        return await give(context, server.answer_to(name, received))

    async def download(request: Any, context: Any) -> Any:
        record(context, [request])
        answer = server.answer_to(name, request)
        for item in answer if isinstance(answer, list) else [answer]:
            if isinstance(item, InitialMetadata):
                await context.send_initial_metadata(item.metadata)
                assert await asyncio.to_thread(item.heard.wait, 10)
            else:
                yield await give(context, item)

    wrap: Callable[..., Any]
    if rpc.path in STREAMED_UP:
        wrap, handle = grpc.stream_unary_rpc_method_handler, upload
    elif rpc.path in STREAMED_DOWN:
        wrap, handle = grpc.unary_stream_rpc_method_handler, download
    else:
        wrap, handle = grpc.unary_unary_rpc_method_handler, unary
    return wrap(
        handle, request_deserializer=rpc.request.FromString, response_serializer=lambda m: m.SerializeToString()
    )


@contextmanager
def running(server: FakeServer) -> Iterator[FakeServer]:
    """Serve on a free port until the block ends."""
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        real = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        services: dict[str, dict[str, Any]] = {}
        for rpc in TABLE:
            service, method = rpc.path.strip("/").split("/")
            services.setdefault(service, {})[method] = _handler(server, rpc)
        for service, methods in services.items():
            real.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        server.port = real.add_insecure_port(f"127.0.0.1:{server.port}")
        await real.start()
        started.set()
        await stop.wait()
        await real.stop(None)

    def work() -> None:
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert started.wait(10)
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

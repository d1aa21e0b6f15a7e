"""The blocking client: the methods of the asynchronous client, run on an event loop in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from rainbow_sched.client.async_client import AsyncClient, AsyncJobHandle, JobResult
from rainbow_sched.client.connection import Timeouts
from rainbow_sched.client.jobs import JobInfo, StreamChunk
from rainbow_sched.client.settings import ClientSettings

P = ParamSpec("P")
R = TypeVar("R")


def _call(method: Callable[Concatenate[AsyncClient, P], Awaitable[R]]) -> Callable[Concatenate[Client, P], R]:
    """Return the blocking form of a coroutine method."""

    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async def call() -> R:
            return await method(self.asynchronous, *args, **kwargs)

        return self.run(call())

    blocking.__name__, blocking.__doc__ = method.__name__, method.__doc__
    return blocking


def _iterate(
    method: Callable[Concatenate[AsyncClient, P], AsyncIterator[R]],
) -> Callable[Concatenate[Client, P], Iterator[R]]:
    """Return the blocking form of a method that yields items."""

    def blocking(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return self.iterate(method(self.asynchronous, *args, **kwargs))

    blocking.__name__, blocking.__doc__ = method.__name__, method.__doc__
    return blocking


class Client:
    """Client of one server, or of the first of several that answers; safe to use from several threads.

    with Client() as client:
        print(client.submit(["hostname"]).result().stdout)
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        settings: ClientSettings | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        self.asynchronous = AsyncClient(server, token=token, settings=settings, timeouts=timeouts)
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._closed = asyncio.Event()
        self._thread = threading.Thread(target=self._run_loop, name="rainbow-client", daemon=True)
        self._thread.start()

    submit_one = _call(AsyncClient.submit_one)
    submit_batch = _call(AsyncClient.submit_batch)
    plan = _call(AsyncClient.plan)
    job = _call(AsyncClient.job)
    jobs = _call(AsyncClient.jobs)
    cancel = _call(AsyncClient.cancel)
    cancel_all = _call(AsyncClient.cancel_all)
    release = _call(AsyncClient.release)
    explain = _call(AsyncClient.explain)
    wait = _call(AsyncClient.wait)
    wait_all = _call(AsyncClient.wait_all)
    watch = _iterate(AsyncClient.watch)
    logs = _iterate(AsyncClient.logs)
    register = _call(AsyncClient.register)
    put_subsystem = _call(AsyncClient.put_subsystem)
    replace_graph = _call(AsyncClient.replace_graph)
    delete_subsystem = _call(AsyncClient.delete_subsystem)
    delete_cluster = _call(AsyncClient.delete_cluster)
    update_state = _call(AsyncClient.update_state)
    patch_graph = _call(AsyncClient.patch_graph)
    clusters = _call(AsyncClient.clusters)
    cluster = _call(AsyncClient.cluster)
    drain = _call(AsyncClient.drain)
    undrain = _call(AsyncClient.undrain)
    restore = _call(AsyncClient.restore)
    give_up_report = _call(AsyncClient.give_up_report)
    set_rules = _call(AsyncClient.set_rules)
    receive = _call(AsyncClient.receive)
    accept = _call(AsyncClient.accept)
    who_am_i = _call(AsyncClient.who_am_i)
    put_user = _call(AsyncClient.put_user)
    users = _call(AsyncClient.users)
    put_group = _call(AsyncClient.put_group)
    groups = _call(AsyncClient.groups)
    create_token = _call(AsyncClient.create_token)
    tokens = _call(AsyncClient.tokens)
    revoke_token = _call(AsyncClient.revoke_token)
    rotate_token = _call(AsyncClient.rotate_token)
    ask_renewal = _call(AsyncClient.ask_renewal)
    audit = _call(AsyncClient.audit)

    def submit(self, argv: Sequence[str] | None = None, **options: Any) -> JobHandle:
        """Submit a command, or a `jobspec`; the options are those of `AsyncClient.submit`."""
        return JobHandle(self, self.run(self.asynchronous.submit(argv, **options)))

    def handle(self, id: int) -> JobHandle:
        """Return a handle for an existing job."""
        return JobHandle(self, self.asynchronous.handle(id))

    def _run_loop(self) -> None:
        with self._runner:  # at the end it cancels the remaining tasks and closes the generators
            self._runner.run(self._wait_until_closed())

    async def _wait_until_closed(self) -> None:
        await self._closed.wait()
        await self.asynchronous.close()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run one coroutine on the client's loop and return its result."""
        if not self._thread.is_alive():
            coroutine.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the caller was interrupted
            raise

    def iterate(self, items: AsyncIterator[R]) -> Iterator[R]:
        """Yield the items of an asynchronous iterator."""

        async def next_item() -> R:
            return await anext(items)

        async def stop() -> None:
            close = getattr(items, "aclose", None)
            if close is not None:
                await close()

        try:
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield self.run(next_item())
        finally:
            self.run(stop())

    def close(self) -> None:
        """Close the connections and end the thread."""
        if not self._thread.is_alive():
            return
        self.loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class JobHandle:
    """One job: wait for it, read its output, cancel it."""

    client: Client
    asynchronous: AsyncJobHandle

    @property
    def id(self) -> int:
        return self.asynchronous.id

    def status(self) -> JobInfo:
        """Return the current state of the job."""
        return self.client.run(self.asynchronous.status())

    def wait(self) -> JobInfo:
        """Wait until the job has ended; return it."""
        return self.client.run(self.asynchronous.wait())

    def result(self) -> JobResult:
        """Wait for the job and return its output; raise JobFailed if it did not succeed."""
        return self.client.run(self.asynchronous.result())

    def logs(self, *, follow: bool = False, stream: str = "", tail: int = 0) -> Iterator[StreamChunk]:
        """Yield the job's output; with `follow` until it has ended."""
        return self.client.iterate(self.asynchronous.logs(follow=follow, stream=stream, tail=tail))

    def cancel(self, reason: str = "") -> JobInfo:
        """Cancel the job; return its current state."""
        return self.client.run(self.asynchronous.cancel(reason))

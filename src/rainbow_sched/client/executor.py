"""A `concurrent.futures.Executor` whose work is commands that run on the fleet."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from typing import Any

from rainbow_sched.client.async_client import Result
from rainbow_sched.client.blocking_client import Client
from rainbow_sched.client.settings import Settings

CANCELLED = "its future was cancelled"


class Executor(concurrent.futures.Executor):
    """Submits commands, answers with futures of their `Result`.

        with Executor() as pool:
            futures = [pool.submit(["./simulate", str(seed)], cores=4) for seed in range(100)]
            for future in concurrent.futures.as_completed(futures):
                print(future.result().stdout)

    Only commands: no function is pickled and sent, so nothing on the way has to run what it
    cannot read. A future that is cancelled cancels its job.
    """

    def __init__(
        self, server: str | None = None, *, token: str | None = None, settings: Settings | None = None, **defaults: Any
    ) -> None:
        """`defaults` are given to every submit: nodes, tasks, cores, gpus, duration, terms ..."""
        self._client = Client(server, token=token, settings=settings)
        self._defaults = defaults
        self._pending: dict[concurrent.futures.Future[Result], int] = {}  # with the ids of their jobs
        self._cancelling: set[concurrent.futures.Future[Any]] = set()  # calls under way that end jobs
        self._closed = False

    def submit(  # type: ignore[override]  # commands instead of functions is the point of this class
        self, argv: Sequence[str], /, **asked: Any
    ) -> concurrent.futures.Future[Result]:
        """Submit one command; it is durable when this returns. The future raises JobFailed if it does not succeed."""
        if self._closed:
            raise RuntimeError("cannot submit after shutdown")
        if callable(argv):
            raise TypeError('this executor runs commands: submit(["prog", "argument"]), not functions')
        handle = self._client.submit(argv, **(self._defaults | asked))
        future = asyncio.run_coroutine_threadsafe(handle.asynchronous.result(), self._client.loop)
        self._pending[future] = handle.id
        future.add_done_callback(self._forget)
        return future

    def map(  # type: ignore[override]  # commands instead of functions
        self, commands: Sequence[Sequence[str]], /, *, timeout: float | None = None, **asked: Any
    ) -> list[Result]:
        """Run many commands; their results in the order given."""
        futures = [self.submit(argv, **asked) for argv in commands]
        return [future.result(timeout) for future in futures]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; wait for what is under way, or cancel it: that is asked for when this returns."""
        self._closed = True
        try:
            if cancel_futures:
                pending, self._pending = self._pending, {}  # their jobs are cancelled here, all in one call
                ids = [id for future, id in pending.items() if future.cancel()]
                if ids:
                    self._client.cancel(ids, reason=CANCELLED)
            if wait:
                concurrent.futures.wait(list(self._pending))
        finally:
            concurrent.futures.wait(list(self._cancelling))
            if wait:
                self._client.close()

    def _forget(self, future: concurrent.futures.Future[Result]) -> None:
        id = self._pending.pop(future, None)
        if id is not None and future.cancelled():
            call = self._client.asynchronous.cancel([id], reason=CANCELLED)
            cancelling = asyncio.run_coroutine_threadsafe(call, self._client.loop)
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)

"""A `concurrent.futures.Executor` whose work is commands that run on the fleet."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any

from rainbow.client.aio import Result
from rainbow.client.settings import Settings
from rainbow.client.sync import Client


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
        self._pending: set[concurrent.futures.Future[Result]] = set()
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
        self._pending.add(future)
        future.add_done_callback(self._forget(handle.id))
        return future

    def map(  # type: ignore[override]  # commands instead of functions
        self, commands: Sequence[Sequence[str]], /, *, timeout: float | None = None, **asked: Any
    ) -> list[Result]:
        """Run many commands; their results in the order given."""
        futures = [self.submit(argv, **asked) for argv in commands]
        return [future.result(timeout) for future in futures]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work; wait for what is under way, or cancel it."""
        self._closed = True
        pending = list(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            concurrent.futures.wait(pending)
            self._client.close()

    def _forget(self, id: int) -> Callable[[concurrent.futures.Future[Result]], None]:
        def done(future: concurrent.futures.Future[Result]) -> None:
            self._pending.discard(future)
            if future.cancelled():
                cancelling = self._client.asynchronous.cancel([id], reason="its future was cancelled")
                asyncio.run_coroutine_threadsafe(cancelling, self._client.loop)

        return done

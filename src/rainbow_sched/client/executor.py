"""A `concurrent.futures.Executor` that runs commands as jobs."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from typing import Any

from rainbow_sched.client.async_client import JobResult
from rainbow_sched.client.blocking_client import Client
from rainbow_sched.client.settings import ClientSettings

CANCEL_REASON = "its future was cancelled"


class Executor(concurrent.futures.Executor):
    """Submits commands and returns futures of their `JobResult`.

        with Executor() as pool:
            futures = [pool.submit(["./simulate", str(seed)], cores=4) for seed in range(100)]
            for future in concurrent.futures.as_completed(futures):
                print(future.result().stdout)

    It runs commands only: functions are not pickled and sent. Cancelling a future cancels its job.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        settings: ClientSettings | None = None,
        **defaults: Any,
    ) -> None:
        """Options in `defaults` apply to every submit: nodes, tasks, cores, gpus, duration, terms ..."""
        self._client = Client(server, token=token, settings=settings)
        self._defaults = defaults
        self._pending: dict[concurrent.futures.Future[JobResult], int] = {}  # by future: the id of its job
        self._cancelling: set[concurrent.futures.Future[Any]] = set()  # cancel calls in progress
        self._closed = False

    def submit(  # type: ignore[override]  # commands instead of functions is the point of this class
        self, argv: Sequence[str], /, **options: Any
    ) -> concurrent.futures.Future[JobResult]:
        """Submit one command; it is durable when this returns. The future raises JobFailed if the job fails."""
        if self._closed:
            raise RuntimeError("cannot submit after shutdown")
        if callable(argv):
            raise TypeError('this executor runs commands: submit(["prog", "argument"]), not functions')
        handle = self._client.submit(argv, **(self._defaults | options))
        future = asyncio.run_coroutine_threadsafe(handle.asynchronous.result(), self._client.loop)
        self._pending[future] = handle.id
        future.add_done_callback(self._forget)
        return future

    def map(  # type: ignore[override]  # commands instead of functions
        self, commands: Sequence[Sequence[str]], /, *, timeout: float | None = None, **options: Any
    ) -> list[JobResult]:
        """Run several commands; return their results in the same order."""
        futures = [self.submit(argv, **options) for argv in commands]
        return [future.result(timeout) for future in futures]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more commands; wait for pending jobs, or cancel them before this returns."""
        self._closed = True
        try:
            if cancel_futures:
                pending, self._pending = self._pending, {}  # one call cancels all their jobs
                ids = [id for future, id in pending.items() if future.cancel()]
                if ids:
                    self._client.cancel(ids, reason=CANCEL_REASON)
            if wait:
                concurrent.futures.wait(list(self._pending))
        finally:
            concurrent.futures.wait(list(self._cancelling))
            if wait:
                self._client.close()

    def _forget(self, future: concurrent.futures.Future[JobResult]) -> None:
        id = self._pending.pop(future, None)
        if id is not None and future.cancelled():
            call = self._client.asynchronous.cancel([id], reason=CANCEL_REASON)
            cancelling = asyncio.run_coroutine_threadsafe(call, self._client.loop)
            self._cancelling.add(cancelling)
            cancelling.add_done_callback(self._cancelling.discard)

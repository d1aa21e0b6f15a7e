"""An asyncio loop in virtual time: it never waits, and the order of steps is deterministic."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any

from rainbow_sched.model.errors import RainbowError


class Deadlock(RuntimeError):
    """All tasks wait and no timer is set: an error in the simulation itself."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks and tasks in the order of their virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = self
        self.set_task_factory(_adopted)

    def time(self) -> float:
        """Return virtual seconds since the start of the world."""
        return self._now

    def select(self, timeout: float | None) -> list[object]:
        """Advance the time where a real loop waits for sockets."""
        if timeout is None:
            raise Deadlock("all tasks wait and no timer is set")
        self._now += max(0.0, timeout)
        return []

    def run_in_executor(  # type: ignore[override]  # inline: a thread would make the order of steps random
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        done.set_result(func(*args))
        return done

    def _process_events(self, event_list: list[object]) -> None:
        """There are no sockets."""

    def _write_to_self(self) -> None:
        """There are no other threads."""


class Process:
    """The tasks of one simulated process; a crash cancels all of them."""

    def __init__(self, broken: Callable[[BaseException], None]) -> None:
        """`broken` is called with an error of a task that is not a RainbowError."""
        self.alive = True
        self._broken = broken
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict, because its order is deterministic

    def spawn(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` and the tasks that it creates as part of this process."""
        context = contextvars.copy_context()
        context.run(_process.set, self)
        return loop.create_task(work, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Add a task to this process until it is done."""
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            problem = task.exception()  # a RainbowError is the answer for the caller of the task
            if problem is not None and not isinstance(problem, RainbowError):
                self._broken(problem)

    def crash(self) -> None:
        self.alive = False
        for task in list(self._tasks):
            task.cancel()


_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


def _adopted(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    *,
    context: contextvars.Context | None = None,
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    process = _process.get() if context is None else context.get(_process)
    if process is not None:
        process.adopt(task)
    return task

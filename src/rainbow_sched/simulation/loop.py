"""An asyncio loop whose time is a number: nothing waits for real, and the same steps come in the same order."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import Any

from rainbow_sched.model.errors import RainbowError


class Stalled(RuntimeError):
    """Everybody waits and nothing will ever happen: a mistake in the simulation itself."""


class _Idle:
    """Stands where a real loop waits for sockets: instead of waiting, time moves on."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        if timeout is None:
            raise Stalled("nothing is left to happen")
        if timeout > 0:
            self._loop.pass_by(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks and tasks in the order of their virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = _Idle(self)
        self.set_task_factory(_adopted)

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self._now

    def pass_by(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def run_in_executor(  # type: ignore[override]  # at once and here: a thread would make the order of steps random
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
    """The tasks of one simulated process; a crash ends all of them at once."""

    def __init__(self, broken: Callable[[BaseException], None]) -> None:
        """`broken` is told of an error that ended one of its tasks and that is none of ours."""
        self.alive = True
        self._broken = broken
        self._tasks: dict[asyncio.Task[Any], None] = {}  # a dict keeps its order, a set of objects does not

    def spawn(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work`, and whatever tasks it makes, as part of this process."""
        context = contextvars.copy_context()
        context.run(_process.set, self)
        return loop.create_task(work, context=context)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task as part of this process until it is done."""
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled():
            problem = task.exception()  # one of ours is the answer to whoever awaits the task
            if problem is not None and not isinstance(problem, RainbowError):
                self._broken(problem)

    def crash(self) -> None:
        """End everything, wherever it stands."""
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

"""Launches for tests of backends, and a backend at work with the verbs that they need."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from rainbow_sched.agent.backends.base import Backend, Launch
from rainbow_sched.agent.backends.local.wrapper import start_time
from rainbow_sched.agent.core.values import Phase, Update
from rainbow_sched.model.graph import Graph, Vertex
from rainbow_sched.model.request import Count, Group, Level, Request, Task

ValueT = TypeVar("ValueT")
CORES = 2


def a_graph(cores: int = CORES) -> Graph:
    """One node with two cores and 512 MiB."""
    vertices = [
        Vertex(id="c", type="cluster", name="here"),
        Vertex(id="n", type="node", name="n0"),
        Vertex(id="m", type="memory", name="m0", size=512, unit="MiB"),
        *(Vertex(id=f"core{i}", type="core", name=f"core{i}") for i in range(cores)),
    ]
    return Graph.build(vertices, [("c", "n"), ("n", "m"), *(("n", f"core{i}") for i in range(cores))])


def a_request(*command: str, cores: int = 1, type: str = "core", **fields: object) -> Request:
    """`command` on some cores of one node."""
    task = fields.pop("task", None) or Task(command=command or ("true",))
    level = Level(type="node", shared=True, abstract=True, inside=(Level(type=type, count=Count(cores)),))
    return Request(groups=(Group(levels=(level,)),), tasks=(task,), **fields)


def a_launch(request: Request, job: int = 1, n: int = 1, **fields: object) -> Launch:
    """Attempt `n` of job `job`."""
    return Launch(tag=f"rb-{job}-{n}", job=job, attempt=n, cluster="here", request=request, **fields)


class Desk:
    """A backend at work, with the verbs the tests need."""

    def __init__(self, make: Callable[[], Backend], directory: Path) -> None:
        self._make = make
        self.directory = directory
        self.backend = make()

    async def again(self) -> None:
        """Throw the agent's object away and begin anew, as after a crash."""
        await self.backend.close()
        self.backend = self._make()
        await self.backend.start()

    async def submit(self, request: Request, job: int = 1, **fields: object) -> str:
        launch = a_launch(request, job, **fields)
        await self.backend.submit(launch)
        return launch.tag

    async def wait(self, check: Callable[[], Awaitable[ValueT] | ValueT], seconds: float = 20.0) -> ValueT:
        """Wait until `check` returns something true, looking as often as the agent would; return it."""
        async with asyncio.timeout(seconds):
            while True:
                found = check()
                if inspect.isawaitable(found):
                    found = await found
                if found:
                    return found
                await self.backend.changed()

    async def until(self, tag: str, phase: Phase, seconds: float = 20.0) -> Update:
        """Wait for a phase, by the backend's own word."""

        async def look() -> Update | None:
            found = (update for update in await self.backend.poll() if update.tag == tag and update.phase is phase)
            return next(found, None)

        return await self.wait(look, seconds)

    async def until_output(self, tag: str, wanted: bytes) -> None:
        async def look() -> bool:
            return wanted in await self.out(tag)

        await self.wait(look)

    async def run(self, request: Request, job: int = 1, **fields: object) -> Update:
        return await self.until(await self.submit(request, job, **fields), Phase.ENDED)

    async def out(self, tag: str, stream: str = "stdout") -> bytes:
        return await self.backend.output(tag, stream, 0, 1 << 20)


async def leave(desk: Desk) -> None:
    """End all jobs of this desk: the manager may serve other tests, too."""
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()


def alive(pid: int) -> bool:
    """True if the process still is."""
    return start_time(pid) is not None


def end(pid: int) -> None:
    """Kill one process by its id."""
    os.kill(pid, signal.SIGKILL)

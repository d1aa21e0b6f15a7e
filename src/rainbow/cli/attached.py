"""Staying with a job: its output as it comes, a status line while it waits, keys that cancel or detach."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rainbow.cli.exits import Exit, of_job
from rainbow.cli.following import Printer
from rainbow.cli.interrupts import Act, Interrupts
from rainbow.cli.render_jobs import info, letter
from rainbow.cli.report import say
from rainbow.cli.terminal import one_line
from rainbow.cli.times import stopwatch
from rainbow.client import JobFilter
from rainbow.model.errors import RainbowError

if TYPE_CHECKING:
    from rainbow.client import AsyncClient
    from rainbow.client.views import JobView

PAUSE = 0.2


def status_line(job: dict[str, Any], waited: float) -> str:
    """`rainbow: 119 perl: waiting for resources (queued there)    00:00:08`."""
    where = f" {job['cluster']}" if job.get("cluster") else ""
    what = {"D": "waiting", "P": "held", "S": "waiting for resources", "C": "ending"}.get(letter(job), "running")
    more = f" ({info(job)})" if info(job) else ""
    return one_line(f"rainbow: {job['id']}{where}: {what}{more}") + f"    {stopwatch(waited)}"


class Attached:
    """One job that this terminal stays with until it ends, is detached from, or cancelled."""

    def __init__(self, client: AsyncClient, id: int, *, raw: bool = False) -> None:
        self._client, self._id = client, id
        self._printer = Printer(raw=raw)
        self._interrupts = Interrupts()
        self._left = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()
        self._drawn = False
        self._began = asyncio.get_running_loop().time()

    async def follow(self) -> int:
        """Stay to the end; the exit code."""
        status = asyncio.create_task(self._status()) if sys.stderr.isatty() else None
        working = asyncio.create_task(self._to_the_end())
        leaving = asyncio.create_task(self._left.wait())
        with self._keys():
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (status, leaving):
            if task is not None:
                task.cancel()
        self._erase()
        if not working.done():
            working.cancel()
            return Exit.INTERRUPTED if self._interrupts.cancelling else Exit.OK
        try:
            return self._ended(working.result())
        except BrokenPipeError:
            say(f"nobody reads its output any more; job {self._id} goes on: rainbow cancel {self._id} ends it")
            raise

    def _ended(self, job: JobView) -> int:
        by_itself = job.exit_code is not None and 0 <= job.exit_code < 128
        if job.state != "succeeded" and not (job.state == "failed" and by_itself):
            why = f" (why: rainbow explain {job.id})" if job.state == "infeasible" else ""
            say(f"job {job.id} {job.state}" + (f": {job.reason}" if job.reason else "") + why)
        if job.state == "cancelled" and self._interrupts.cancelling:
            return Exit.INTERRUPTED
        return of_job(job.as_dict())

    async def _to_the_end(self) -> JobView:
        """Print everything, and once the job has ended, what came last."""
        at: dict[str, int] = {}
        while True:
            await self._print(at, follow=True)
            job = await self._client.job(self._id)
            if job.ended:
                await self._print(at, follow=False)
                self._printer.finish()
                return await self._client.wait(self._id)
            await asyncio.sleep(PAUSE)

    async def _print(self, at: dict[str, int], *, follow: bool) -> None:
        async for chunk in self._client.logs(self._id, follow=follow, offsets=at):
            self._erase()
            self._printer.write(chunk)
            at[chunk.stream] = chunk.offset + len(chunk.data)

    async def _status(self) -> None:
        """Draw the status line each second until the job runs; an error is told by what follows the job itself."""
        with contextlib.suppress(RainbowError):
            await self._draw_until_it_runs()

    async def _draw_until_it_runs(self) -> None:
        loop = asyncio.get_running_loop()
        job = (await self._client.job(self._id)).as_dict()
        events = self._client.watch(JobFilter(ids=(self._id,)), after=0)
        following = asyncio.ensure_future(anext(events))
        try:
            while letter(job) in "DPSC":
                self._draw(status_line(job, loop.time() - self._began))
                done, _ = await asyncio.wait({following}, timeout=1.0)
                if done and following.exception() is not None:
                    return  # the server says no more; the job's output and end come by other ways
                if done:
                    job = (await self._client.job(self._id)).as_dict()
                    following = asyncio.ensure_future(anext(events))
        finally:
            following.cancel()
            self._erase()
            await asyncio.gather(following, return_exceptions=True)
            await events.aclose()

    async def _cancel(self) -> None:
        try:
            await self._client.cancel([self._id], reason="interrupted by its owner")
        except RainbowError as error:
            self._erase()
            say(f"job {self._id} is not cancelled: {error}")

    def _draw(self, line: str) -> None:
        sys.stderr.write(f"\r{line}\x1b[K")
        sys.stderr.flush()
        self._drawn = True

    def _erase(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False

    @contextlib.contextmanager
    def _keys(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: self._act(self._interrupts.interrupt(loop.time())))
        loop.add_signal_handler(signal.SIGTSTP, lambda: self._act(self._interrupts.stop(loop.time())))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_signal_handler(signal.SIGTSTP)

    def _act(self, act: Act) -> None:
        self._erase()
        match act:
            case Act.WARN:
                say(f"^C again within 2 s cancels job {self._id}; ^Z detaches and lets it go on")
            case Act.CANCEL:
                say(f"cancelling job {self._id}; ^C again leaves without waiting for it")
                task = asyncio.create_task(self._cancel())
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            case Act.DETACH:
                say(f"detached; job {self._id} goes on: rainbow logs -f {self._id}")
                self._left.set()
            case Act.LEAVE:
                self._left.set()
            case Act.SUSPEND:
                os.kill(os.getpid(), signal.SIGSTOP)

"""Attach the terminal to a job: print its output, show a status line, cancel or detach on ^C and ^Z."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import enum
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TextIO

from rainbow_sched.cli.render.jobs import info, state_letter
from rainbow_sched.cli.render.terminal import Cleaner, one_line, print_message
from rainbow_sched.cli.render.times import format_stopwatch
from rainbow_sched.cli.shell.exit_codes import ExitCode, exit_code_of_job
from rainbow_sched.client.jobs import JobClient, JobFilter, JobInfo, StreamChunk
from rainbow_sched.model.errors import RainbowError

POLL_SECONDS = 0.2  # between two checks whether the job has ended, once its output has
DOUBLE_KEY_SECONDS = 2.0  # ^C or ^Z within this after a ^C cancels or detaches


class KeyAction(enum.Enum):
    """The reaction to ^C or ^Z."""

    WARN = "warn"  # print what the next key does
    CANCEL = "cancel"
    LEAVE = "leave"  # the job is already cancelling; do not wait for it
    DETACH = "detach"
    SUSPEND = "suspend"  # the default of ^Z


@dataclass(slots=True)
class Interrupts:
    """Decides on ^C and ^Z: ^C twice within two seconds cancels, ^C then ^Z detaches."""

    last: float | None = None  # time of the last ^C
    cancelling: bool = False

    def interrupt(self, now: float) -> KeyAction:
        """Return the action for ^C."""
        if self.cancelling:
            return KeyAction.LEAVE
        armed, self.last = self._armed(now), now
        if armed:
            self.cancelling = True
            return KeyAction.CANCEL
        return KeyAction.WARN

    def stop(self, now: float) -> KeyAction:
        """Return the action for ^Z."""
        return KeyAction.DETACH if self._armed(now) else KeyAction.SUSPEND

    def _armed(self, now: float) -> bool:
        return self.last is not None and now - self.last <= DOUBLE_KEY_SECONDS


def status_line(job: dict[str, Any], waited: float) -> str:
    """Format `rainbow: 119 perl: waiting for resources (queued there)    00:00:08`."""
    where = f" {job['cluster']}" if job.get("cluster") else ""
    what = {"D": "waiting", "P": "held", "S": "waiting for resources", "C": "ending"}.get(state_letter(job), "running")
    more = f" ({info(job)})" if info(job) else ""
    return one_line(f"rainbow: {job['id']}{where}: {what}{more}") + f"    {format_stopwatch(waited)}"


class AttachedJob:
    """A job whose output this terminal prints until the job ends or the user detaches."""

    def __init__(self, client: JobClient, id: int, *, raw: bool = False) -> None:
        self._client, self._id = client, id
        self._printer = OutputPrinter(raw=raw)
        self._interrupts = Interrupts()
        self._left = asyncio.Event()
        self._background: set[asyncio.Task[Any]] = set()
        self._drawn = False
        self._began = asyncio.get_running_loop().time()

    async def follow(self) -> int:
        """Print the output until the job ends or the user detaches; return the exit code."""
        status = asyncio.create_task(self._status()) if sys.stderr.isatty() else None
        output = asyncio.create_task(self._print_until_end())
        leaving = asyncio.create_task(self._left.wait())
        with self._keys():
            await asyncio.wait({output, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (status, leaving):
            if task is not None:
                task.cancel()
        self._erase()
        if not output.done():
            output.cancel()
            return ExitCode.INTERRUPTED if self._interrupts.cancelling else ExitCode.OK
        try:
            return self._report_end(output.result())
        except BrokenPipeError:
            print_message(f"the output is closed; job {self._id} continues; cancel it with: rainbow cancel {self._id}")
            raise

    def _report_end(self, job: JobInfo) -> int:
        exited = job.exit_code is not None and 0 <= job.exit_code < 128
        if job.state != "succeeded" and not (job.state == "failed" and exited):
            why = f" (rainbow explain {job.id})" if job.state == "infeasible" else ""
            print_message(f"job {job.id} {job.state}" + (f": {job.reason}" if job.reason else "") + why)
        if job.state == "cancelled" and self._interrupts.cancelling:
            return ExitCode.INTERRUPTED
        return exit_code_of_job(job.as_dict())

    async def _print_until_end(self) -> JobInfo:
        offsets: dict[str, int] = {}
        while True:
            await self._print(offsets, follow=True)
            job = await self._client.job(self._id)
            if job.ended:
                await self._print(offsets, follow=False)
                self._printer.finish()
                return await self._client.wait(self._id)
            await asyncio.sleep(POLL_SECONDS)

    async def _print(self, offsets: dict[str, int], *, follow: bool) -> None:
        async for chunk in self._client.logs(self._id, follow=follow, offsets=offsets):
            self._erase()
            self._printer.write(chunk)
            offsets[chunk.stream] = chunk.offset + len(chunk.data)

    async def _status(self) -> None:
        """Draw the status line each second until the job runs; the output task reports errors."""
        with contextlib.suppress(RainbowError):
            await self._draw_until_running()

    async def _draw_until_running(self) -> None:
        loop = asyncio.get_running_loop()
        job = (await self._client.job(self._id)).as_dict()
        events = self._client.watch(JobFilter(ids=(self._id,)), after=0)
        next_event = asyncio.ensure_future(anext(events))
        try:
            while state_letter(job) in "DPSC":
                self._draw(status_line(job, loop.time() - self._began))
                done, _ = await asyncio.wait({next_event}, timeout=1.0)
                if done and next_event.exception() is not None:
                    return  # the output task reports the end of the job
                if done:
                    job = (await self._client.job(self._id)).as_dict()
                    next_event = asyncio.ensure_future(anext(events))
        finally:
            next_event.cancel()
            self._erase()
            await asyncio.gather(next_event, return_exceptions=True)
            await events.aclose()

    async def _cancel(self) -> None:
        try:
            await self._client.cancel([self._id], reason="interrupted by its owner")
        except RainbowError as error:
            self._erase()
            print_message(f"cannot cancel job {self._id}: {error}")

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
        loop.add_signal_handler(signal.SIGINT, lambda: self._react(self._interrupts.interrupt(loop.time())))
        loop.add_signal_handler(signal.SIGTSTP, lambda: self._react(self._interrupts.stop(loop.time())))
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_signal_handler(signal.SIGTSTP)

    def _react(self, action: KeyAction) -> None:
        self._erase()
        match action:
            case KeyAction.WARN:
                print_message(f"^C again within 2 s cancels job {self._id}; ^Z detaches and the job continues")
            case KeyAction.CANCEL:
                print_message(f"cancelling job {self._id}; ^C again leaves without waiting for it")
                task = asyncio.create_task(self._cancel())
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            case KeyAction.DETACH:
                print_message(f"detached; job {self._id} continues: rainbow logs -f {self._id}")
                self._left.set()
            case KeyAction.LEAVE:
                self._left.set()
            case KeyAction.SUSPEND:
                os.kill(os.getpid(), signal.SIGSTOP)


class StreamWriter:
    """Writes one stream of a job to one stream of this process."""

    def __init__(self, stream: TextIO, *, raw: bool) -> None:
        self._binary: BinaryIO = stream.buffer
        self._stream = stream
        self._cleaner = None if raw or not stream.isatty() else Cleaner()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        if self._cleaner is None:
            self._binary.write(data)
            self._binary.flush()
            return
        self._stream.write(self._cleaner.feed(self._decoder.decode(data)))
        self._stream.flush()

    def finish(self) -> None:
        if self._cleaner is not None:
            self._stream.write(self._cleaner.feed(self._decoder.decode(b"", True)) + self._cleaner.finish())
            self._stream.flush()


class OutputPrinter:
    """Prints a job's stdout to stdout and its stderr to stderr."""

    def __init__(self, *, raw: bool = False) -> None:
        self._writers = {"stdout": StreamWriter(sys.stdout, raw=raw), "stderr": StreamWriter(sys.stderr, raw=raw)}

    def write(self, chunk: StreamChunk) -> None:
        self._writers.get(chunk.stream, self._writers["stdout"]).write(chunk.data)

    def finish(self) -> None:
        """Print buffered text."""
        for writer in self._writers.values():
            writer.finish()

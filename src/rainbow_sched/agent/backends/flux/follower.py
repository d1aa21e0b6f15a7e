"""Follow a Flux instance's journal and query its scheduler through a child process in Flux's Python.

The child (`bridge.py`) is restarted when it ends. While it is down, or cannot read the journal, there is no table, and
the backend uses `flux jobs`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import Callable, Mapping

from rainbow_sched.agent.backends.flux.commands import TIMEOUT_SECONDS, FluxCommands
from rainbow_sched.agent.backends.flux.events import FluxJobTable
from rainbow_sched.agent.backends.flux.jobs import FluxJob
from rainbow_sched.model.errors import Invalid, Unavailable

log = logging.getLogger("rainbow.agent")
GRACE_SECONDS = 5.0  # seconds for the child to exit
_FORMAT_ERRORS = (ValueError, LookupError, TypeError, AttributeError)  # another version of Flux may use another format
RESTART_SECONDS = (1.0, 5.0, 15.0, 60.0)  # seconds until the child is restarted


class FluxFollower:
    """The child process, kept running from `start` to `close`."""

    def __init__(self, commands: FluxCommands, phase_changed: Callable[[FluxJob], None]) -> None:
        """Call `phase_changed` for each job whose phase changed."""
        self._commands = commands
        self._phase_changed = phase_changed
        self._task: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._history: FluxJobTable | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, asyncio.Future[dict[str, object]]] = {}
        self._problem_text = ""
        self.table: FluxJobTable | None = None  # the jobs, once the journal's history has been read

    def start(self) -> None:
        """Start following; returns at once."""
        self._task = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Stop the child."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def probe(self, jobspec: Mapping[str, object]) -> dict[str, object]:
        """Return the answer of `bridge.probe`; raise Unavailable without a child, Invalid if Flux refuses."""
        child = self._child
        if child is None or child.stdin is None:
            raise Unavailable(f"Flux's Python is not available: {self._problem_text or 'it is still starting'}")
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                child.stdin.write(json.dumps({"n": number, "of": jobspec}).encode() + b"\n")
                await child.stdin.drain()
                return await answer
        except (TimeoutError, ConnectionError):
            raise Unavailable("Flux's Python did not answer") from None
        finally:
            self._asked.pop(number, None)

    async def _keep(self) -> None:
        pauses = 0
        while True:
            try:
                caught_up = await self._once()
            except (Unavailable, *_FORMAT_ERRORS) as problem:
                caught_up = False
                self._warn(str(problem) or type(problem).__name__)
            pauses = 0 if caught_up else pauses + 1
            await asyncio.sleep(RESTART_SECONDS[min(pauses, len(RESTART_SECONDS) - 1)])

    async def _once(self) -> bool:
        """Run the child once; return True if it read the journal."""
        self._child = child = await self._commands.bridge()
        self._history = FluxJobTable()
        assert child.stdout is not None
        try:
            async for line in child.stdout:
                self._received(json.loads(line))
            if self.table is None:
                self._warn(self._problem_text or "its Python module cannot be used")
            return self.table is not None
        finally:
            self._child = self._history = self.table = None
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(Unavailable("Flux's Python ended before it answered"))
            await _end(child)

    def _received(self, message: Mapping[str, object]) -> None:
        journal = message.get("journal")
        if isinstance(journal, Mapping) and self._history is not None:
            job = self._history.take(journal)
            if job is not None and self.table is not None:
                self._phase_changed(job)
        elif "caught_up" in message:
            self.table = self._history
            self._problem_text = ""
        elif "lost" in message:
            self.table = self._history = None
            self._warn(str(message["lost"]))
        else:
            self._answered(message)

    def _answered(self, message: Mapping[str, object]) -> None:
        answer = self._asked.get(int(str(message.get("n", -1))))
        if answer is None or answer.done():
            return
        found = message.get("answer")
        if isinstance(found, dict):
            answer.set_result(found)
        else:
            answer.set_exception(Invalid(f"Flux refuses: {message.get('problem')}"))

    def _warn(self, problem_text: str) -> None:
        """Log once why the journal cannot be followed."""
        if problem_text != self._problem_text:
            log.warning("cannot follow the journal of Flux (%s); using flux jobs instead", problem_text)
        self._problem_text = problem_text


async def _end(child: asyncio.subprocess.Process) -> None:
    """Stop the child, even if this task is cancelled meanwhile."""
    ending = asyncio.create_task(_ended(child))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await ending
        raise


async def _ended(child: asyncio.subprocess.Process) -> None:
    """Close the child's stdin; kill a child that does not exit."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), GRACE_SECONDS)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()

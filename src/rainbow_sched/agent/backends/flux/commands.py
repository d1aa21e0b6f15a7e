"""Run the `flux` program against one instance, and classify its errors."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from rainbow_sched.agent.backends.common.programs import ProgramResult, run
from rainbow_sched.model.errors import Invalid, Unavailable

TIMEOUT_SECONDS = 60.0  # for one program, so that a hanging one does not keep its slot
MAX_CONCURRENT = 4  # concurrent programs; bounds the load on the instance
BRIDGE = Path(__file__).with_name("bridge.py")
MAX_LINE_BYTES = 1 << 26  # bytes per line of the bridge: jobspecs may be long
# The instance did not answer: it may or may not have processed the request.
_NO_ANSWER = re.compile(
    r"unable to connect|flux_open|no such file or directory|connection (?:refused|reset|aborted)|broken pipe|"
    r"lost connection|host is unreachable|timed? ?out|function not implemented|no service matching|unreachable|"
    r"operation cancell?ed|interrupted|protocol error|input/output error|no data available|try again",
    re.IGNORECASE,
)
_PASSED_VARIABLES = ("HOME", "USER", "LOGNAME", "PATH", "FLUX_URI", "LD_LIBRARY_PATH", "TZ", "XDG_RUNTIME_DIR")


class FluxCommands:
    """The `flux` program, run as the agent's user."""

    def __init__(self, environment: Mapping[str, str], *, uri: str = "", program: str = "flux") -> None:
        """`uri`: the instance, if not the agent's own."""
        passed = {name: environment[name] for name in _PASSED_VARIABLES if name in environment}
        self._environment = {"PATH": os.defpath, **passed, "LC_ALL": "C.UTF-8", "FLUX_F58_FORCE_ASCII": "1"}
        if uri:
            self._environment["FLUX_URI"] = uri
        self._program = program
        # How a job's own script runs `flux`, independent of the job's environment.
        self.path = shutil.which(program, path=self._environment["PATH"]) or program
        kept = ("PATH", "LD_LIBRARY_PATH")
        self.in_jobs = {name: self._environment[name] for name in kept if name in self._environment}
        self._few = asyncio.Semaphore(MAX_CONCURRENT)

    async def ask(self, *words: str, feed: str | None = None) -> str:
        """Return the program's output; raise Unavailable if Flux does not answer, Invalid if it refuses."""
        done = await self.run(*words, feed=feed)
        if done.code:
            raise self.problem(done)
        return done.out

    async def document(self, *words: str) -> dict[str, object]:
        """Return the program's output as a JSON object."""
        text = await self.ask(*words)
        try:
            found = json.loads(text)
        except ValueError:
            raise Unavailable(f"flux {' '.join(words[:2])} did not answer in JSON: {text[:60]!r}") from None
        if not isinstance(found, dict):
            raise Unavailable(f"flux {' '.join(words[:2])} did not answer with an object: {text[:60]!r}")
        return found

    def problem(self, done: ProgramResult) -> Unavailable | Invalid:
        if _NO_ANSWER.search(done.err) or not done.err.strip():
            return Unavailable(f"Flux does not answer: {done.error_line}")
        return Invalid(f"Flux refuses: {done.error_line}")

    async def run(self, *words: str, feed: str | None = None) -> ProgramResult:
        """Run `flux`, with a limit on concurrent programs."""
        async with self._few:
            return await run((self._program, *words), self._environment, TIMEOUT_SECONDS, feed)

    async def bridge(self) -> asyncio.subprocess.Process:
        """Start the bridge (`bridge.py`) in Flux's own Python; raise Unavailable if it cannot run."""
        try:
            return await asyncio.create_subprocess_exec(
                self._program,
                "python",
                str(BRIDGE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environment,
                limit=MAX_LINE_BYTES,
            )
        except OSError as problem:
            raise Unavailable(f"{self._program} could not be started: {problem.strerror}") from None

"""Runs Slurm's client programs: with a clean environment, a time limit, and errors told apart by what they mean."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rainbow.model.errors import Invalid, Unavailable

TIMEOUT = 60.0
PING_TIMEOUT = 10.0
# The controller could not be reached or did not answer: whether it took the request is not known.
_NO_ANSWER = re.compile(
    r"unable to contact|socket timed out|connection (?:refused|reset|timed out)|transport endpoint|zero bytes|"
    r"message (?:receive|send) failure|temporarily unable|communication|controller.*not respond|protocol auth|"
    r"resource temporarily unavailable|munge|try again",
    re.IGNORECASE,
)
_KEPT = ("HOME", "USER", "LOGNAME", "PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH", "TZ")


@dataclass(frozen=True, slots=True)
class Done:
    """What a program said."""

    code: int
    out: str
    err: str


class SlurmCommands:
    """Slurm's client programs as the agent's user."""

    def __init__(self, environment: Mapping[str, str], *, conf: str = "", timeout: float = TIMEOUT) -> None:
        """`conf`: the slurm.conf to use, if it is not the machine's own."""
        kept = {name: environment[name] for name in _KEPT if name in environment}
        self._environment = {"PATH": os.defpath, **kept, "LC_ALL": "C"}
        if conf:
            self._environment["SLURM_CONF"] = conf
        self._timeout = timeout
        self._sick = False

    async def ask(self, *words: str) -> str:
        """What a question answers; raise Unavailable if there is no answer, Invalid if it is refused."""
        await self.awake()
        done = await self.run(*words, extra={"SLURM_TIME_FORMAT": "%s"})
        if done.code == 0:
            return done.out
        raise self.problem(done)

    async def awake(self) -> None:
        """Raise Unavailable if the controller is down, as far as is known.

        After a question without an answer it is pinged first, which takes milliseconds: while
        it is down, a question takes as long as Slurm's own timeout.
        """
        if self._sick and not await self.healthy():
            raise Unavailable("the Slurm controller does not answer")

    def problem(self, done: Done) -> Unavailable | Invalid:
        """The error that a failed program stands for."""
        said = says(done.err) or f"exit code {done.code}"
        self._sick = bool(_NO_ANSWER.search(said))
        return Unavailable(f"Slurm does not answer: {said}") if self._sick else Invalid(f"Slurm refuses: {said}")

    async def healthy(self) -> bool:
        """True if a controller answers."""
        try:
            done = await self.run("scontrol", "ping", timeout=PING_TIMEOUT)
        except Unavailable:
            return False
        up = bool(re.search(r"\bUP\b", done.out))
        self._sick = not up
        return up

    async def run(self, *words: str, extra: Mapping[str, str] | None = None, timeout: float | None = None) -> Done:
        """Run one program to its end; raise Unavailable if it cannot be run or takes too long."""
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={**self._environment, **(extra or {})},
            )
        except OSError as problem:
            raise Unavailable(f"{words[0]} cannot be run: {problem.strerror}") from None
        try:
            async with asyncio.timeout(timeout or self._timeout):
                out, err = await process.communicate()
        except TimeoutError:
            self._sick = True
            raise Unavailable(f"{words[0]} did not answer within {timeout or self._timeout:g} s") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return Done(process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace"))


def says(text: str) -> str:
    """The last thing a program complained of, without its name."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^\w+: (?:error: )?", "", lines[-1]) if lines else ""

"""Run Slurm's client programs, and classify their errors."""

from __future__ import annotations

import contextlib
import grp
import os
import re
from collections.abc import Mapping

from rainbow_sched.agent.backends.common.programs import ProgramResult, run
from rainbow_sched.model.errors import Invalid, Unavailable

TIMEOUT_SECONDS = 60.0  # for one program, so that a hanging one does not block the agent
PING_TIMEOUT_SECONDS = 10.0  # a controller that does not respond within this is considered down
# The controller did not answer: it may or may not have processed the request.
_NO_ANSWER = re.compile(
    r"unable to contact|socket timed out|connection (?:refused|reset|timed out)|transport endpoint|zero bytes|"
    r"message (?:receive|send) failure|temporarily unable|communication|controller.*not respond|protocol auth|"
    r"resource temporarily unavailable|munge|try again",
    re.IGNORECASE,
)
_PASSED_VARIABLES = ("HOME", "USER", "LOGNAME", "PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "LD_LIBRARY_PATH", "TZ")


class SlurmCommands:
    """Slurm's client programs, run as the agent's user."""

    def __init__(self, environment: Mapping[str, str], *, conf: str = "") -> None:
        """`conf`: path of slurm.conf, if not the default."""
        passed = {name: environment[name] for name in _PASSED_VARIABLES if name in environment}
        self._environment = {"PATH": os.defpath, **passed, "LC_ALL": "C"}
        if conf:
            self._environment["SLURM_CONF"] = conf
        self._down = False

    async def ask(self, *words: str) -> str:
        """Return a program's output; raise Unavailable if Slurm does not answer, Invalid if it refuses."""
        await self.check_controller()
        done = await self.run(*words, extra={"SLURM_TIME_FORMAT": "%s"})
        if done.code == 0:
            return done.out
        raise self.problem(done)

    async def check_controller(self) -> None:
        """Raise Unavailable if the controller is down.

        After an unanswered query the controller is pinged first, which takes milliseconds; a query would take Slurm's
        timeout.
        """
        if self._down:
            with contextlib.suppress(Unavailable):
                done = await self.run("scontrol", "ping", timeout=PING_TIMEOUT_SECONDS)
                self._down = re.search(r"\bUP\b", done.out) is None
        if self._down:
            raise Unavailable("the Slurm controller does not answer")

    def problem(self, done: ProgramResult) -> Unavailable | Invalid:
        error = done.error_line
        self._down = bool(_NO_ANSWER.search(error))
        return Unavailable(f"Slurm does not answer: {error}") if self._down else Invalid(f"Slurm refuses: {error}")

    async def run(
        self, *words: str, extra: Mapping[str, str] | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> ProgramResult:
        """Run a program; raise Unavailable if it cannot be run or times out."""
        try:
            return await run(words, {**self._environment, **(extra or {})}, timeout)
        except Unavailable:
            self._down = True
            raise


def own_groups() -> frozenset[str]:
    """Return the names of our user's groups; none for root, who may use all partitions."""
    if os.geteuid() == 0:
        return frozenset()
    names = set()
    for number in {os.getegid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return frozenset(names)

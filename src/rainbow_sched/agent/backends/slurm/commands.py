"""Runs Slurm's client programs: with a clean environment, a time limit, and errors told apart by what they mean."""

from __future__ import annotations

import contextlib
import grp
import os
import re
from collections.abc import Mapping

from rainbow_sched.agent.backends.common.programs import Done, run
from rainbow_sched.model.errors import Invalid, Unavailable

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
        said = done.complaint
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
        environment = {**self._environment, **(extra or {})}
        try:
            return await run(words, environment, timeout or self._timeout)
        except Unavailable:
            self._sick = True
            raise


def own_groups() -> frozenset[str]:
    """The names of the groups that our user is in; root may use whatever it likes, so none are told."""
    if os.geteuid() == 0:
        return frozenset()
    names = set()
    for number in {os.getegid(), *os.getgroups()}:
        with contextlib.suppress(KeyError):
            names.add(grp.getgrgid(number).gr_name)
    return frozenset(names)

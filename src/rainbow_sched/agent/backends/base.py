"""PLUGIN POINT: what an agent asks of a driver for a manager (local, slurm, flux ...).

A driver is built once per process, keeps no global state, and passes the suite in
`tests/contract/backends`. It answers truthfully: a question that it cannot answer now is
`Unknown` or an `Unavailable` error, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from rainbow_sched.agent.core.values import ANY_HOST, Absent, AllowedHosts, BidAnswer, Facts, Found, Unknown, Update
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt, ready to be handed to the manager."""

    tag: str  # rb-<job>-<n>: the name under which the manager must know it
    job: int
    attempt: int
    cluster: str
    request: Request
    owner: str = ""
    name: str = ""
    array_index: int | None = None
    allowed: AllowedHosts = ANY_HOST  # what was matched is where it runs
    guard: float | None = None  # end it when the server was not heard of for so many seconds: it may run elsewhere then


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What an hour costs here."""

    core_hour: float = 0.0
    node_hour: float = 0.0
    gpu_hour: float = 0.0

    def cost(self, *, cores: int, nodes: int, gpus: int, duration: float | None) -> float | None:
        """What a job costs that takes so much for so many seconds; None if its length counts and is not known."""
        hourly = cores * self.core_hour + nodes * self.node_hour + gpus * self.gpu_hour
        if not hourly:
            return 0.0
        return None if duration is None else duration / 3600 * hourly

    def state(self) -> dict[str, object]:
        """Those that are set, as the cluster's state names them."""
        named = {"core": self.core_hour, "node": self.node_hour, "gpu": self.gpu_hour}
        return {f"cost_per_{kind}_hour": price for kind, price in named.items() if price}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    """What every driver is built from."""

    cluster: str
    directory: Path  # its own place in the agent's state directory
    graph: Graph | None = None  # None: find out
    prices: Prices = Prices()
    options: Mapping[str, str] = field(default_factory=dict)

    def know(self, *names: str, maps: Iterable[str] = ()) -> None:
        """Refuse options that the backend does not have; `maps` are names that may be followed by a dot and a word."""
        known = (*names, *maps)
        for given in self.options:
            if given not in names and given.partition(".")[0] not in maps:
                raise Invalid(f"-O: this backend has no option {given!r}{did_you_mean(given, known)}")

    def seconds(self, name: str, otherwise: float) -> float:
        """An option that is a time."""
        text = self.options.get(name)
        try:
            value = float(text) if text else otherwise
        except ValueError:
            value = -1.0
        if not 0 <= value < math.inf:
            raise Invalid(f"-O {name} is a number of seconds, not {text!r}")
        return value


class CannotBind(Unsupported):
    """The job could run here, but not be kept on the hosts on which it may run: it is handed back."""


class Backend(Protocol):
    """The manager's side of the agent."""

    guards_runs: bool  # True: a run ends by itself at its `Launch.guard`, even if the agent is dead

    @property
    def node_rules(self) -> NodeRules:
        """What the manager can be told about the nodes of a job, as far as is known now."""

    async def start(self) -> None:
        """Find out what runs already; called once, before anything else."""

    async def submit(self, launch: Launch) -> str:
        """Hand over a job and return the manager's id for it.

        The manager is told the hosts on which the job may run (`Launch.allowed`), and chooses among them. Where the
        job starts on any other, its command is not started and the attempt ends as returned, with `WRONG_NODES`.

        The same tag again returns the same id and starts nothing. `Invalid` and `Unsupported` say that the manager
        certainly did not take it and would not; any other error leaves that open, and the tag is looked up.
        """

    async def lookup(self, tag: str) -> Found | Absent | Unknown:
        """What the manager knows of a tag."""

    async def poll(self) -> tuple[Update, ...]:
        """All of Rainbow's jobs the manager knows, in one query; raise Unavailable if it cannot be asked."""

    async def changed(self) -> None:
        """Return when `poll` may have news: an interval for managers that must be asked, at once for others."""

    async def cancel(self, tag: str) -> None:
        """End a job that waits or runs; nothing to end is fine. By its tag: managers give ids out again.

        Its end shows in `poll`.
        """

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes of stdout or stderr from `offset`; empty if there are none."""

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Why this request can never run here on these hosts, or None."""

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """When it would start on these hosts, and what it would cost."""

    async def facts(self) -> Facts:
        """The manager's name and what is free."""

    def reshape(self, graph: Graph) -> None:
        """The cluster changed: work within this graph from now on. What runs goes on, and still counts."""

    async def forget(self, tag: str) -> None:
        """The server has all there is to know: traces may go."""

    async def close(self) -> None:
        """Stop watching; jobs go on."""


MakeBackend: TypeAlias = Callable[[BackendSettings], Backend]

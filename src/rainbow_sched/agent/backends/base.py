"""PLUGIN POINT: the interface between agent and manager (local, slurm, flux ...).

A backend is built once per process, has no global state, and passes the suite in `tests/contract/backends`. It never
guesses: if it cannot answer now, it returns `Unknown` or raises `Unavailable`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Unknown, Update
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unsupported
from rainbow_sched.model.graph import Graph
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts, BidAnswer

NOW_SECONDS = 2.0  # seconds: a start this near counts as now


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One attempt to submit to the manager."""

    tag: str  # rb-<job>-<n>: the job's name in the manager
    job: int
    attempt: int
    cluster: str
    request: Request
    owner: str = ""
    name: str = ""
    array_index: int | None = None
    allowed: AllowedHosts = ANY_HOST  # the hosts that the server has matched
    guard: float | None = None  # seconds without contact to the server until the job must end


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices per hour of one cluster."""

    core_hour: float = 0.0
    node_hour: float = 0.0
    gpu_hour: float = 0.0

    def cost(self, *, cores: int, nodes: int, gpus: int, duration: float | None) -> float | None:
        """Return the cost of a job; None if it depends on a duration that is not known."""
        hourly = cores * self.core_hour + nodes * self.node_hour + gpus * self.gpu_hour
        if not hourly:
            return 0.0
        return None if duration is None else duration / 3600 * hourly

    def state(self) -> dict[str, object]:
        """Return the prices that are set, under their names in the cluster's state."""
        named = {"core": self.core_hour, "node": self.node_hour, "gpu": self.gpu_hour}
        return {f"cost_per_{kind}_hour": price for kind, price in named.items() if price}


def round_to_now(seconds: float | None) -> float | None:
    """Return the seconds until a start for a bid: 0 for a start within moments; None is not known."""
    return None if seconds is None else 0.0 if seconds < NOW_SECONDS else seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSettings:
    cluster: str
    directory: Path  # the agent's state directory
    graph: Graph | None = None  # None: use discovery
    prices: Prices = Prices()
    options: Mapping[str, str] = field(default_factory=dict)

    def know(self, *names: str, maps: Iterable[str] = ()) -> None:
        """Raise Invalid for unknown options; `maps` are names that may have a suffix `.WORD`."""
        known = (*names, *maps)
        for given in self.options:
            if given not in names and given.partition(".")[0] not in maps:
                raise Invalid(f"-O: this backend has no option {given!r}{did_you_mean(given, known)}")

    def seconds(self, name: str, otherwise: float) -> float:
        """Return an option that is a duration in seconds."""
        text = self.options.get(name)
        try:
            value = float(text) if text else otherwise
        except ValueError:
            value = -1.0
        if not 0 <= value < math.inf:
            raise Invalid(f"-O {name} must be a number of seconds, not {text!r}")
        return value


class CannotBind(Unsupported):
    """The manager cannot restrict the job to its allowed hosts: the attempt is returned."""


class Backend(Protocol):
    """The manager's side of the agent."""

    guards_runs: bool  # True: a job ends at its `Launch.guard` even if the agent is dead

    @property
    def node_rules(self) -> NodeRules:
        """Constraints on nodes that the manager can enforce, as far as is known now."""

    async def start(self) -> None:
        """Find existing jobs; called once, before any other call."""

    async def submit(self, launch: Launch) -> str:
        """Submit a job and return the manager's id.

        The manager chooses among the hosts on which the job may run (`Launch.allowed`). If the job starts on another
        host, its command is not run and the attempt is returned with `WRONG_NODES`.

        A second call with the same tag returns the same id and starts nothing. `Invalid` and `Unsupported` mean that
        the manager certainly does not have the job; after any other error the agent looks the tag up.
        """

    async def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        """Return the manager's job with this tag."""

    async def poll(self) -> tuple[Update, ...]:
        """Return all jobs of Rainbow in one query; raise Unavailable if the manager does not answer."""

    async def changed(self) -> None:
        """Wait until `poll` may have changes: an interval, or until a notification."""

    async def cancel(self, tag: str) -> None:
        """End a pending or running job, found by its tag because managers reuse ids; no job is no error.

        The end shows in `poll`.
        """

    async def output(self, tag: str, stream: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of stdout or stderr from `offset`; empty at the end."""

    async def check(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> str | None:
        """Return why the request can never run on these hosts, or None."""

    async def bid(self, request: Request, allowed: AllowedHosts = ANY_HOST) -> BidAnswer:
        """Return expected start and cost on these hosts."""

    async def facts(self) -> ClusterFacts:
        """Return the manager's name and free resources."""

    def reshape(self, graph: Graph) -> None:
        """Use this graph from now on; running jobs continue and still count."""

    async def forget(self, tag: str) -> None:
        """Remove the job's files: the server has its result and output."""

    async def close(self) -> None:
        """Stop watching; jobs continue."""


MakeBackend: TypeAlias = Callable[[BackendSettings], Backend]

"""A minimal cluster manager without safeguards: jobs wait, run, end and are forgotten.

A tag that is submitted twice runs twice. Queries fail, commands get lost, and ended jobs may be
forgotten at any time. Its answers are always true. Its cluster has one host with cores, and several with a disk, some
of which are fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from rainbow_sched.agent.core.state import AgentLimits
from rainbow_sched.agent.core.values import Absent, JobFound, Phase, Result, Unknown, Update
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import WRONG_NODES
from rainbow_sched.model.request import Equals, Group, Level, Request, Requirement, Task
from rainbow_sched.protocol.messages import AttemptRef, Offer
from rainbow_sched.simulation.faults import FaultRates
from rainbow_sched.simulation.loop import VirtualLoop
from rainbow_sched.simulation.witness import ActualRun, Witness

LIMITS = AgentLimits(max_jobs=3, max_wait=4.0, run_guard=9.0, output_grace=2.0, output_give_up=60.0, chunk=64, chunks=2)
FOR_EVER = "for-ever"  # the name of jobs that end only when cancelled
LONG = 100_000.0
GUARD_SECONDS = 1.0  # between two checks of a guard
LOST_BY_MANAGER = Result(state=AttemptState.RETURNED, reason="the manager took it and lost it before it began")
ENDED_BY_ORDER = Result(state=AttemptState.CANCELLED, exit_code=143, reason="ended by order")
OUT_OF_TOUCH = Result(state=AttemptState.PREEMPTED, reason="the server could not be reached for too long")
WRONG_HOST = Result(state=AttemptState.RETURNED, reason="not on a host that was allowed", code=WRONG_NODES)
RESULTS = (  # how runs end by themselves, each with the upper bound of its share
    (0.75, Result(state=AttemptState.SUCCEEDED, exit_code=0)),
    (0.88, Result(state=AttemptState.FAILED, failure=Failure.EXIT, exit_code=1)),
    (0.95, Result(state=AttemptState.FAILED, failure=Failure.NODE, reason="its node went down")),
    (1.0, Result(state=AttemptState.PREEMPTED, reason="somebody else was more important")),
)
CORE_HOST = "n0"
DISK_HOSTS = ("d0", "d1", "d2")
SUBSYSTEM = "io"
_FAST = Requirement(SUBSYSTEM, (Equals("kind", "fast"),))
_DISK = Level(type="node", requires=(_FAST,), inside=(Level(type="disk"),))
DISK_REQUEST = prepare(Request(groups=(Group(levels=(_DISK,)),), tasks=(Task(command=("true",)),)))


def graph(cores: int) -> bytes:
    """Return the graph of a cluster in the compact format."""
    nodes = [
        {"type": "node", "name": CORE_HOST, "with": [{"type": "core", "count": cores}]},
        {"type": "node", "count": len(DISK_HOSTS), "name": list(DISK_HOSTS), "with": [{"type": "disk"}]},
    ]
    return json.dumps({"rainbow": "graph/1", "cluster": "c", "with": nodes}).encode()


def subsystem(fast: tuple[str, ...]) -> bytes:
    """Return the subsystem that marks the hosts with fast disks."""
    vertex = {"type": "storage", "name": "fast", "on": list(fast), "metadata": {"kind": "fast"}}
    return json.dumps({"rainbow": "subsystem/1", "name": SUBSYSTEM, "with": [vertex]}).encode()


def checked(entry: ManagerJob) -> bool:
    """Return True if the wrapper would start the command on this host."""
    return not entry.allowed or entry.host in entry.allowed


@dataclass(slots=True)
class ManagerJob:
    ref: AttemptRef
    name: str
    native: str
    guard: float | None = None
    wants_disk: bool = False
    allowed: tuple[str, ...] = ()  # hosts; empty: all
    host: str = ""  # set at the start
    run: ActualRun | None = None
    result: Result | None = None

    def update(self) -> Update:
        """Return the job as the manager reports it."""
        job = Update(tag=self.ref.tag, phase=Phase.SUBMITTED, native=self.native, result=self.result, nodes=self.host)
        if self.run is not None:
            sizes = (len(self.run.output), 0)
            job = replace(job, phase=Phase.RUNNING, started_at=self.run.started, sizes=sizes)
        return job if self.result is None else replace(job, phase=Phase.ENDED)


@dataclass(slots=True)
class Manager:
    """The manager of one cluster, which keeps running while its agent is down."""

    cluster: str
    loop: VirtualLoop
    rng: Random
    rates: FaultRates
    witness: Witness
    guards: bool = True  # runs end if their agent has no contact to the server for long
    luck: Random = field(default_factory=Random)  # of its choice of hosts
    binds: bool = True  # its agent honours host bindings
    heard: float = 0.0  # time of the last contact to the server, from the agent's disk
    entries: list[ManagerJob] = field(default_factory=list)
    losses: Random = field(default_factory=Random)  # draws accepted jobs that it loses
    submissions: int = 0
    tags: set[str] = field(default_factory=set)  # every tag that was ever submitted

    def submit(self, offer: Offer) -> str:
        """Accept a job and return its id."""
        self.submissions += 1
        self.tags.add(offer.ref.tag)
        entry = ManagerJob(offer.ref, offer.name, f"{self.cluster}-{self.submissions}")
        entry.wants_disk = offer.spec == DISK_REQUEST.text
        if self.binds:  # older agents ignore hosts
            entry.allowed = next((group.hosts for group in offer.allowed.groups), ())
        if self.guards:
            entry.guard = offer.guard(LIMITS.run_guard)
        self.entries.append(entry)
        self._later(0.01, 3.0, lambda: self._begin(entry))
        return entry.native

    def lookup(self, tag: str) -> JobFound | Absent | Unknown:
        if self.errs():
            return Unknown("the manager did not answer")
        for entry in self.entries:
            if entry.ref.tag == tag:
                return JobFound(entry.update())
        return Absent(never=tag not in self.tags)

    def poll(self) -> tuple[Update, ...] | None:
        """Return all jobs; None if the query failed."""
        if self.errs():
            return None
        some = self.rng.random() < self.rates.manager_error / 2  # the answer is incomplete
        return tuple(entry.update() for entry in self.entries if not some or self.rng.random() < 0.5)

    def cancel(self, tag: str) -> None:
        """Cancel the job of a tag; the command may get lost."""
        if self.errs():
            return
        for entry in self.entries:
            if entry.ref.tag == tag and entry.result is None:
                self._later(0.01, 0.5, partial(self._kill, entry))

    def output(self, tag: str, offset: int, limit: int) -> bytes:
        """Return a part of the output of a job."""
        for entry in self.entries:
            if entry.ref.tag == tag and entry.run is not None:
                return entry.run.output[offset : offset + limit]
        return b""

    def forget(self, tag: str) -> None:
        """Remove an ended job."""
        self.entries = [entry for entry in self.entries if entry.ref.tag != tag or entry.result is None]

    def errs(self) -> bool:
        """Return True if this request fails."""
        return self.rng.random() < self.rates.manager_error

    def _later(self, low: float, high: float, do: Callable[[], None]) -> None:
        self.loop.call_later(self.rng.uniform(low, high), do)

    def _begin(self, entry: ManagerJob) -> None:
        if entry.result is not None:
            return
        if self._out_of_touch(entry):
            self._end(entry, OUT_OF_TOUCH)
            return
        if self.rng.random() < self.rates.refusal / 2:
            self._end(entry, Result(state=AttemptState.FAILED, failure=Failure.LAUNCH, reason="no node would start it"))
            return
        entry.host = self._host(entry)
        if self.binds and not checked(entry):
            self._end(entry, WRONG_HOST)
            return
        if self.losses.random() < self.rates.manager_loses:
            self._end(entry, LOST_BY_MANAGER)
            return
        ref = entry.ref
        self.witness.launches(ref.job, ref.n, self.cluster, entry.host)
        entry.run = self.witness.truth.launch(ref.job, ref.n, self.cluster, self.loop.time(), entry.host)
        entry.run.output = b"%s began\n" % ref.tag.encode()
        if entry.name == FOR_EVER:
            seconds = LONG
        elif self.rng.random() < 0.15:
            seconds = self.rng.uniform(6.0, 25.0)
        else:
            seconds = self.rng.uniform(0.2, 4.0)
        self.loop.call_later(seconds, lambda: self._finish(entry))
        if entry.guard is not None:
            self.loop.call_later(GUARD_SECONDS, lambda: self._guard(entry))

    def _host(self, entry: ManagerJob) -> str:
        """Choose an allowed host, or sometimes by mistake another host with a disk."""
        if not entry.wants_disk:
            return CORE_HOST
        mistaken = self.luck.random() < self.rates.manager_error / 2
        return self.luck.choice(entry.allowed if entry.allowed and not mistaken else DISK_HOSTS)

    def _out_of_touch(self, entry: ManagerJob) -> bool:
        return entry.guard is not None and self.loop.time() - self.heard >= entry.guard

    def _guard(self, entry: ManagerJob) -> None:
        """Check the contact beside a running job, without an agent."""
        if entry.result is not None:
            return
        if self._out_of_touch(entry):
            self.witness.excused.add((entry.ref.job, entry.ref.n))
            self._kill(entry, OUT_OF_TOUCH)
        else:
            self.loop.call_later(GUARD_SECONDS, lambda: self._guard(entry))

    def _finish(self, entry: ManagerJob) -> None:
        """End a run by itself."""
        if entry.result is not None:
            return
        assert entry.run is not None
        entry.run.output += b"x" * self.rng.randrange(200)
        luck = self.rng.random()
        self._end(entry, next(result for bound, result in RESULTS if luck < bound))

    def _kill(self, entry: ManagerJob, how: Result = ENDED_BY_ORDER) -> None:
        if entry.result is not None:
            return
        if entry.run is not None:
            self.witness.kills(entry.ref.job, entry.ref.n, self.cluster)
        self._end(entry, how)

    def _end(self, entry: ManagerJob, result: Result) -> None:
        entry.result = result
        if entry.run is not None:
            entry.run.result = result
        if self.rng.random() < self.rates.manager_forgets:
            self._later(0.5, 8.0, lambda: self.forget(entry.ref.tag))

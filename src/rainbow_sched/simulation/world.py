"""One simulated world: a server, a few clusters with agents, users and faults, all determined by a seed."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from random import Random

from rainbow_sched.service.clusters import registration
from rainbow_sched.service.maintenance.generations import newest_mark
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.simulation import faults, world_checks
from rainbow_sched.simulation.agent import SimAgent
from rainbow_sched.simulation.faults import NO_FAULTS, FaultRates, Link, draw_rates
from rainbow_sched.simulation.invariants import RULES
from rainbow_sched.simulation.loop import VirtualLoop
from rainbow_sched.simulation.manager import DISK_HOSTS, DISK_REQUEST, SUBSYSTEM, Manager, graph, subsystem
from rainbow_sched.simulation.server import Disk, SimServer, WallClock
from rainbow_sched.simulation.users import CORES, SHORTEST, Users
from rainbow_sched.simulation.witness import GroundTruth, Violation, Witness

# In a world full of faults, warnings say nothing.
logging.getLogger("rainbow_sched.service").addHandler(logging.NullHandler())

POLICIES = ("first", "least", "random", "start")
RUN_LEASE = 16.0  # seconds; longer than the longest guard by what ending a run takes
RESTORES = 2  # of one copy
SETTLED_WITHIN = 300.0  # seconds after the last fault
SEEDS_PER_TASK = 8  # of a worker process


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """The result of one seed."""

    seed: int
    violation: Violation | None
    digest: str  # of the whole trace: equal seeds give equal digests
    jobs: int
    launches: int
    seconds: float  # virtual
    trace: tuple[str, ...]


class World:
    """A world that is built from a seed and runs to its end."""

    def __init__(self, seed: int, rates: FaultRates | None = None) -> None:
        self.seed, self.rng = seed, Random(seed)
        self.rates = self.initial_rates = draw_rates(self.rng, Random(seed + 3)) if rates is None else rates
        self.loop = VirtualLoop()
        self.loop.set_exception_handler(self._unexpected)
        self.lines: list[tuple[object, ...]] = []
        self.wall = WallClock(self.loop)
        self.truth = GroundTruth()
        # One node each: on several nodes, placements may be packed worse after a restart.
        shapes = {f"c{i}": self.rng.randint(2, 8) for i in range(self.rng.randint(2, 3))}
        shapes["c0"] = max(4, shapes["c0"])  # fits every job except those with TOO_LARGE cores
        self.shapes = shapes
        self.settings = Settings(
            policy=self.rng.choice(POLICIES),
            lease=8.0,
            long_poll=4.0,
            heartbeat=4.0,
            silent_after=8.0,
            bid_deadline=1.0,
            run_lease=RUN_LEASE,
            shortest_lost_after=SHORTEST,
        )
        luck = Random(seed + 2)
        self.fast = {name: tuple(luck.sample(DISK_HOSTS, luck.randint(1, 2))) for name in shapes}
        self.old = {name for name in shapes if name != "c0" and luck.random() < 0.3}  # agents without host binding
        bids = self.settings.policy == "start"  # may choose a cluster where a job fits only later
        self.witness = Witness(
            truth=self.truth,
            rules=RULES,
            now=self.loop.time,
            note=self.note,
            stop=self.loop.stop,
            lease=self.settings.lease,
            steady=not self.initial_rates.clock_jump,
            capacity={} if bids else shapes,
            cores_of=lambda job: CORES[job.spec] if job.terms.deadline is None else 0,  # a deadline needs bids, too
            hosts_of=lambda job, cluster: self.fast[cluster] if job.spec == DISK_REQUEST.text else (),
            run_lease=RUN_LEASE,
        )
        self.differing: dict[tuple[str, str], float] = {}  # since when, by cluster and fence: see `world_checks`
        self.disk = Disk(self.witness.committed)
        self.copy: bytes | None = None
        self.server = SimServer(
            loop=self.loop,
            rng=self.rng,
            disk=self.disk,
            wall=self.wall,
            settings=self.settings,
            rates=self.rates,
            witness=self.witness,
            ids=Ids(Random(seed + 1)),
            old=Random(seed + 2),
            refusals=Random(f"{seed} refusals"),
        )
        self.agents = {name: self._agent(name) for name in shapes}
        self.users = Users(
            rng=self.rng,
            wire=Link(self.loop, self.rng, self.rates),
            server=self.server,
            witness=self.witness,
            clusters=tuple(shapes),
            luck=Random(seed + 3),
        )

    def _agent(self, name: str) -> SimAgent:
        manager = Manager(
            name,
            self.loop,
            self.rng,
            self.rates,
            self.witness,
            guards=self.rng.random() < 0.7,
            luck=Random(f"{self.seed} {name}"),
            losses=Random(f"{self.seed} {name} losses"),
            binds=name not in self.old,
        )
        return SimAgent(
            cluster=name,
            loop=self.loop,
            rng=self.rng,
            wire=Link(self.loop, self.rng, self.rates),
            manager=manager,
            server=self.server,
            note=self.note,
            drift=self.rng.uniform(0.99, 1.01),
        )

    # --- the trace ---

    def note(self, *what: object) -> None:
        self.lines.append((self.loop.time(), *what))

    def trace(self) -> tuple[str, ...]:
        return tuple(f"{line[0]:10.4f} {' '.join(map(str, line[1:]))}" for line in self.lines)

    def _unexpected(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        problem = context.get("exception")
        self.witness.broken("nothing breaks", f"{context.get('message')}: {problem!r}")

    # --- life ---

    def run(self) -> WorldResult:
        """Run the world to its end."""
        life = self.loop.create_task(self._live())
        life.add_done_callback(lambda _: self.loop.stop())
        try:
            self.loop.run_forever()
            if life.done() and not life.cancelled() and life.exception() is not None:
                self.witness.broken("nothing breaks", repr(life.exception()))
        finally:
            self._bury()
        trace = self.trace()
        return WorldResult(
            seed=self.seed,
            violation=self.witness.violation,
            digest=hashlib.sha256("\n".join(trace).encode()).hexdigest(),
            jobs=len(self.witness.jobs),
            launches=sum(map(len, self.truth.runs.values())),
            seconds=self.loop.time(),
            trace=trace,
        )

    async def _live(self) -> None:
        self.note("seed", self.seed, self.rates, self.settings.policy, self.shapes)
        self.server.start()
        await self.server.ready.wait()
        assert self.server.service is not None
        for name, cores in self.shapes.items():
            core = self.server.service.core
            await registration.register(core, name, graph(cores), manager="sim")
            await registration.put_subsystem(core, name, SUBSYSTEM, subsystem(self.fast[name]))
        for agent in self.agents.values():
            agent.start()
        every = self.loop.create_task(self._watch())
        await faults.run_faults(self)
        self.note("calm")
        faults.stop_faults(self, NO_FAULTS)
        await world_checks.settle(self, SETTLED_WITHIN)
        every.cancel()

    def backup_or_restore(self) -> None:
        """Copy the database, or restore the copy while the server is down, at most RESTORES times."""
        if self.copy is None:
            self.copy = self.disk.copy()
            self.note("backup")
        elif self.witness.restores < RESTORES:
            self.note("restore")
            self.server.crash()
            newest, id = self.disk.look(newest_mark), f"restored {self.witness.restores}"
            seen = [] if newest is None else [newest]
            self.disk.restore_copy(self.copy, lambda tx: tx.begin_restore(id, self.wall.time(), seen))
            self.disk.look(self.witness.after_restore)
            self.users.after_restore()
            self.loop.call_later(self.rng.uniform(0.05, 3.0), self.server.start)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.witness.hold(RULES.on_second, self.witness)
            self.witness.hold(world_checks.EACH_SECOND, self)

    def _bury(self) -> None:
        """Cancel every task and close the world."""
        self.server.crash()
        while tasks := asyncio.all_tasks(self.loop):
            for task in tasks:
                task.cancel()
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()
        self.loop.close()
        self.disk.close()


def run(seed: int, rates: FaultRates | None = None) -> WorldResult:
    return World(seed, rates).run()


def run_seeds(start: int, seeds: int, processes: int) -> Iterator[WorldResult]:
    """Run `seeds` worlds from seed `start` on, in order; only worlds with a violation keep their trace."""
    numbers = range(start, start + seeds)
    if processes <= 1:
        yield from map(run_briefly, numbers)
        return
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(run_briefly, numbers, chunksize=SEEDS_PER_TASK)


def run_briefly(seed: int) -> WorldResult:
    """Run one world; drop the trace if there is no violation."""
    outcome = run(seed)
    return outcome if outcome.violation is not None else replace(outcome, trace=())

"""Benchmark of a long queue: leases, list pages and a restart with a million pending jobs, half of them offered.

`--jobs N` sets the length (default 1,000,000; filling takes about a minute). `--db URL` uses another database,
which must be empty.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from bench._server import Process
from rainbow_sched.model.job import Hold, Terms
from rainbow_sched.model.job_state import JobState
from rainbow_sched.protocol.messages import AttemptRef
from rainbow_sched.service.agents import offers
from rainbow_sched.service.assembly import Service, assemble
from rainbow_sched.service.clock import AnchoredClock
from rainbow_sched.service.clusters import registration
from rainbow_sched.service.random_ids import Ids
from rainbow_sched.service.settings import Settings
from rainbow_sched.service.views import jobs
from rainbow_sched.store.base import JobSelection, NewJob
from rainbow_sched.store.factory import open_store
from tests.support.agents import sync_request
from tests.support.server_process import SECRET, ServerProcess
from tests.support.service import ADMIN, a_graph, a_request, a_user

GROUP = 10_000
CLUSTERS, OWNERS, NAMES, TEAMS, SHAPES = 4, 20, 1_000, 10, 20
TIMES = 200
BEGAN = 1_700_000_000.0


def drafts(first: int, specs: list[str], terms: list[Terms]) -> list[NewJob]:
    """Return jobs of a busy server: every second one is offered to a full cluster, the others fit no cluster."""
    return [
        NewJob(
            owner=f"user{n % OWNERS}",
            name=f"step-{n % NAMES}",
            spec=specs[n % SHAPES],
            terms=terms[n % len(terms)],
            state=JobState.BOUND if n % 2 else JobState.HELD,
            hold=None if n % 2 else Hold.NOTHING_FITS,
            reason="given to a cluster" if n % 2 else "no cluster has room",
            cluster=f"c{n // 2 % CLUSTERS}" if n % 2 else "",
            token=f"fence-of-some-length-{n:012}" if n % 2 else "",
            client_token=f"key-{n}",
            submitted_at=BEGAN + n / 100,
            evaluations=1,
        )
        for n in range(first, first + GROUP)
    ]


async def fill(service: Service, count: int) -> None:
    """Store the jobs in large groups."""
    from rainbow_sched.jobspecs.canonical import to_json

    for number in range(CLUSTERS):
        await registration.register(service.core, f"c{number}", a_graph(nodes=64, cores=32))
    specs = [to_json(a_request(nodes=1 + n % 4, cores=1 + n % 5)) for n in range(SHAPES)]
    terms = [Terms(labels={"team": f"t{n}"}, priority=n % 3) for n in range(TEAMS)]
    begun = time.perf_counter()
    for first in range(0, count, GROUP):
        batch = drafts(first, specs, terms)
        await service.core.store.write(lambda tx, batch=batch: tx.add_jobs(batch))
    print(f"{count:,} jobs, filled in {time.perf_counter() - begun:.0f} s")


async def timed(name: str, action: Callable[[], Awaitable[object]], limit: float, times: int = TIMES) -> None:
    """Print the time of an action, and whether p99 is within the limit in milliseconds."""
    seconds: list[float] = []
    cpu: list[float] = []
    for _ in range(times):
        begun, used = time.perf_counter(), time.process_time()
        await action()
        seconds.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    p50, p99 = (statistics.quantiles(seconds, n=100)[at] * 1e3 for at in (49, 98))
    busy = statistics.quantiles(cpu, n=100)[98] * 1e3
    good = "" if limit == math.inf else f"limit {limit:g}: {'ok' if p99 <= limit else 'EXCEEDED'}"
    print(f"  {name:<44} p50 {p50:6.2f}  p99 {p99:6.2f} ms, {busy:6.2f} of processor   {good}")


async def leases(service: Service) -> None:
    """Lease fifty offers at a time, by hand and in an agent's Sync, with their events."""
    await timed("lease of 50, by hand", lambda: offers.receive(service.core, "c0", 50), 20)
    seq, taken = 0, list[AttemptRef]()

    async def sync(**fields: object) -> None:
        nonlocal seq
        seq += 1
        answer = await service.agents.sync(sync_request("c1", "bench.1", seq, manager="bench", **fields), "bench")
        taken[:] = [offer.ref for offer in answer.offers]

    async def accepting() -> None:
        await sync(accepts=tuple(taken), want=50)

    await sync()
    await timed("Sync that accepts 50 and is offered 50", accepting, math.inf, 100)


async def pages(service: Service, count: int) -> None:
    """List a page of a hundred jobs with each of the usual filters."""
    waiting = frozenset({JobState.HELD})
    living = frozenset(state for state in JobState if not state.terminal)
    which = {
        "newest": JobSelection(),
        "by state": JobSelection(states=waiting),
        "all that have not ended": JobSelection(states=living),
        "by owner": JobSelection(owners=frozenset({"user7"})),
        "by owner and state": JobSelection(owners=frozenset({"user7"}), states=waiting),
        "by label": JobSelection(labels={"team": "t3"}),
        "by label and state": JobSelection(labels={"team": "t3"}, states=waiting),
        "by a label and a state it never has": JobSelection(labels={"team": "t3"}, states=frozenset({JobState.FAILED})),
        "by name": JobSelection(name="step-77"),
        "by a name nobody has": JobSelection(name="nobody"),
        "by cluster": JobSelection(cluster="c1"),
        "by cluster and name": JobSelection(cluster="c1", name="step-77"),
        "since a time": JobSelection(since=BEGAN + count / 200),
        "since a time, by state": JobSelection(since=BEGAN + count / 200, states=waiting),
        "since a time, by owner": JobSelection(since=BEGAN + count / 200, owners=frozenset({"user7"})),
    }
    for name, one in which.items():
        for where, before in (("", 0), (", from the middle", count // 2)):
            if where and not name.startswith("by"):
                continue
            await timed(
                f"page {name}{where}",
                lambda one=one, before=before: jobs.listed(service.core, one, ADMIN, before=before, limit=100),
                50,
                60,
            )
    await timed(
        "page of a user's own",
        lambda: jobs.listed(service.core, JobSelection(), a_user("user7"), before=0, limit=100),
        50,
        60,
    )


async def measure(url: str, count: int) -> None:
    """Fill the store, then measure it."""
    service = await assemble(await open_store(url), Settings(), AnchoredClock(), Ids(Random(1)), SECRET)
    await fill(service, count)
    await leases(service)
    await pages(service, count)
    await service.stop()


def restart(server: ServerProcess) -> None:
    """Time the start of a real server until its port is open."""
    begun = time.perf_counter()
    server.start(timeout=600)
    seconds = time.perf_counter() - begun
    assert server.process is not None
    process = Process(server.address, server.process.pid)
    used, memory, good = process.cpu(), process.memory() / 1e6, "ok" if seconds <= 5 else "EXCEEDED"
    print(f"  restart to ready {seconds:.1f} s, {used:.1f} s of processor, {memory:.0f} MB   limit 5 s: {good}")
    server.stop()


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="bench queueing")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--db", default="")
    options = parser.parse_args(arguments)
    count = max(GROUP, options.jobs // GROUP * GROUP)
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as name:
        server = ServerProcess(Path(name), db=options.db)
        (server.folder / "data").mkdir()
        url = options.db or f"sqlite:///{server.folder / 'data/rainbow.db'}"
        asyncio.run(measure(url, count))
        restart(server)

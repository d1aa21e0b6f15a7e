"""Benchmark of the store: batches against bare inserts, group commit against single commits, and a long queue.

All ratios are within one run. The default queue is 100,000 jobs; `--full` is a million. `--db URL`
uses another database, which must be empty.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from rainbow_sched.model.decision import StoredDecision
from rainbow_sched.model.job_state import JobState
from rainbow_sched.store import Store, open_store
from rainbow_sched.store.base import JobSelection, NewJob

BATCH, ROUNDS, IN_FLIGHT = 1000, 20, 64
SPEC = json.dumps({"resources": [{"type": "node", "count": 4}], "pad": "x" * 950})
_keys = itertools.count()


def drafts(count: int, *, unique: bool = False) -> list[NewJob]:
    """Return bound jobs with a client token and a decision, as a server stores them."""
    keys = [next(_keys) for _ in range(count)]
    return [
        NewJob(
            owner=f"user:{key % 20}",
            name="sleep",
            spec=f'{{"n":{key},{SPEC[1:]}' if unique else SPEC,
            state=JobState.BOUND,
            cluster=f"c{key % 4}",
            token=f"token-of-32-letters-{key:012d}",
            decision=StoredDecision('{"winner":"c0","considered":4}', "{}"),
            client_token=f"key-{key}",
            submitted_at=float(key),
            evaluations=1,
        )
        for key in keys
    ]


def bare_inserts(folder: Path) -> float:
    """Return rows/s of `executemany` into one table with one index: the limit of SQLite itself."""
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    for line in (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "CREATE TABLE jobs (id INTEGER PRIMARY KEY, owner, name, state, cluster, token, spec, at)",
        "CREATE INDEX queue ON jobs (cluster, id) WHERE state = 'bound'",
    ):
        connection.execute(line)
    rows = [(None, d.owner, d.name, "bound", d.cluster, d.token, d.spec, 1.0) for d in drafts(BATCH)]
    begun = time.perf_counter()
    for _ in range(ROUNDS):
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    seconds = time.perf_counter() - begun
    connection.close()
    return BATCH * ROUNDS / seconds


async def batches(store: Store, *, unique: bool) -> float:
    """Return jobs/s in batches of a thousand."""
    work = [drafts(BATCH, unique=unique) for _ in range(ROUNDS)]
    begun = time.perf_counter()
    for batch in work:
        await store.write(lambda tx, batch=batch: tx.add_jobs(batch))
    return BATCH * ROUNDS / (time.perf_counter() - begun)


async def singles(store: Store, in_flight: int, count: int) -> float:
    """Return jobs/s of single writes, with `in_flight` concurrent writers."""
    waiting = iter(drafts(count))

    async def client() -> None:
        for draft in waiting:
            await store.write(lambda tx, draft=draft: tx.add_jobs([draft]))

    begun = time.perf_counter()
    await asyncio.gather(*[client() for _ in range(in_flight)])
    return count / (time.perf_counter() - begun)


async def timed(name: str, action: Callable[[], Awaitable[object]], times: int = 300) -> None:
    """Print the time of an action."""
    seconds: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        await action()
        seconds.append(time.perf_counter() - begun)
    cuts = statistics.quantiles(seconds, n=100)
    print(f"  {name:<34} p50 {cuts[49] * 1e3:6.2f} ms   p99 {cuts[98] * 1e3:6.2f} ms")


async def long_queue(store: Store, jobs: int) -> None:
    """Fill the queue, then lease from it and list it."""
    begun = time.perf_counter()
    for _ in range(jobs // (10 * BATCH)):
        batch = drafts(10 * BATCH)
        await store.write(lambda tx, batch=batch: tx.add_jobs(batch))
    print(f"queue of {jobs:,} jobs, filled in {time.perf_counter() - begun:.1f} s")
    mine, far = frozenset({"user:7"}), jobs // 2
    live = frozenset({JobState.QUEUED, JobState.HELD, JobState.BOUND, JobState.CANCELLING})
    pages = {
        "page of 100, newest": (JobSelection(), None),
        "page of 100, one owner": (JobSelection(owners=mine), None),
        "page of 100, live, from the middle": (JobSelection(states=live), far),
        "page of 100, one cluster": (JobSelection(cluster="c1", states=live), far),
        "page of 100, a name nobody has": (JobSelection(name="nobody"), None),
    }
    await timed("lease of 50", lambda: store.write(lambda tx: tx.lease("c1", 50, "bench", 9e9, now=1.0)))
    for name, (which, after) in pages.items():
        await timed(
            name, lambda which=which, after=after: store.read(lambda tx: tx.list_jobs(which, after=after, limit=100))
        )
    await timed("1,000 events from the middle", lambda: store.read(lambda tx: tx.events(far, 1000)), 50)
    await timed("lapsed leases", lambda: store.read(lambda tx: tx.lapsed(1.0, 100)))
    await timed("count by state", lambda: store.read(lambda tx: tx.count_jobs(JobSelection())), 5)


async def measure(folder: Path, url: str, queue: int) -> None:
    """Print all measurements."""
    bare = bare_inserts(folder)
    store = await open_store(url)
    await store.write(lambda tx: [tx.add_cluster(f"c{i}", 0.0) for i in range(4)])
    shared, unique = await batches(store, unique=False), await batches(store, unique=True)
    one, many = await singles(store, 1, 1000), await singles(store, IN_FLIGHT, 6000)
    print(f"bare inserts of 1 KiB rows        {bare:9,.0f} rows/s")
    print(f"batches, one request for all      {shared:9,.0f} jobs/s   {shared / bare:5.2f} of bare, 6 rows each")
    print(f"batches, a request for each       {unique:9,.0f} jobs/s   shared / own {shared / unique:5.2f}")
    print(f"single jobs, 1 in flight          {one:9,.0f} jobs/s")
    print(f"single jobs, {IN_FLIGHT} in flight         {many:9,.0f} jobs/s   group commit gains {many / one:5.2f}")
    await long_queue(store, queue)
    await store.close()
    begun = time.perf_counter()
    store = await open_store(url)
    await store.read(lambda tx: (tx.last_seq(), tx.list_jobs(JobSelection(), limit=1)))
    print(f"  opened again and ready after {(time.perf_counter() - begun) * 1e3:.0f} ms")
    await store.close()


def main(arguments: list[str]) -> None:
    """Print the table."""
    queue = 1_000_000 if "--full" in arguments else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = arguments[arguments.index("--db") + 1] if "--db" in arguments else f"sqlite:///{folder / 'bench.db'}"
        asyncio.run(measure(folder, url, queue))


if __name__ == "__main__":
    main(sys.argv[1:])

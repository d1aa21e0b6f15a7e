"""Benchmark of submission over gRPC: single submits and batches, compared with an echo server and bare inserts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median

from grpc import aio

from bench._server import ECHO, Process, a_server, an_echo
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.pb.v2 import jobs_pb2, jobs_pb2_grpc
from tests.support.calls import Calls, bearer
from tests.support.service import a_graph, a_request

SECONDS = 4.0
ROUNDS = 8  # all are measured in turns, so that other load affects them equally
CLUSTERS = 100
_tokens = itertools.count()
SPECS = [to_json(a_request(nodes=1 + i % 3, cores=1 + i % 7)) for i in range(50)]


def a_submit() -> jobs_pb2.SubmitRequest:
    """Return a job of one of fifty shapes, with its own client token."""
    number = next(_tokens)
    spec = jobs_pb2.Spec(canonical=SPECS[number % len(SPECS)])
    return jobs_pb2.SubmitRequest(name="bench", spec=spec, client_token=f"t{number}")


async def rate(in_flight: int, call: Callable[[], Awaitable[object]], server: Process | None) -> tuple[float, float]:
    """Return calls per second with `in_flight` concurrent calls, and the server's processor milliseconds per call."""
    done = 0
    until = time.perf_counter() + SECONDS / ROUNDS
    before, begun = server.cpu() if server else 0.0, time.perf_counter()

    async def worker() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await call()
            done += 1

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return done / (time.perf_counter() - begun), 1000 * (server.cpu() - before) / done if server else 0.0


async def decided(jobs: jobs_pb2_grpc.JobsStub, who: object, count: int, begun: float) -> float:
    """Return jobs per second until all decisions are made."""
    waiting = jobs_pb2.JobFilter(states=["queued"])
    while (await jobs.List(jobs_pb2.ListJobsRequest(filter=waiting, limit=1), metadata=who)).jobs:  # noqa: ASYNC110  # it is another process that decides
        await asyncio.sleep(0.05)
    return count / (time.perf_counter() - begun)


class BareInserts:
    """Group commit of one row per job: the minimum work of a durable submit."""

    def __init__(self, folder: Path) -> None:
        self._queue: queue.SimpleQueue[asyncio.Future[None] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(folder / "bare.db",))
        self._thread.start()

    async def __call__(self) -> None:
        """Insert a row; return when it is on disk."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(done)
        await done

    def stop(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self, path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, token UNIQUE, spec)")
        while (first := self._queue.get()) is not None:
            group = [first]
            while not self._queue.empty() and (more := self._queue.get()) is not None:
                group.append(more)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO jobs (token, spec) VALUES (?, ?)", [(f"t{next(_tokens)}", SPECS[0]) for _ in group]
            )
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_resolve, group)
        connection.close()


def _resolve(group: list[asyncio.Future[None]]) -> None:
    for done in group:
        done.set_result(None)


@contextlib.contextmanager
def bare_inserts() -> Iterator[BareInserts]:
    """Run the inserts in this process, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="rainbow-bench-") as folder:
        inserts = BareInserts(Path(folder))
        try:
            yield inserts
        finally:
            inserts.stop()


async def measure(ours: Process, echo: Process) -> None:
    """Print the medians of submits, echo and inserts, measured in turns."""
    async with aio.insecure_channel(ours.address) as channel, aio.insecure_channel(echo.address) as echoing:
        jobs = jobs_pb2_grpc.JobsStub(channel)
        who = bearer(ours.token)
        for _ in range(300):  # warm up: the first jobs of a shape or cluster are slower
            await jobs.Submit(a_submit(), metadata=who)
        ask = echoing.unary_unary(ECHO)
        heads = ("in flight", "echo/s", "insert/s", "submit/s", "of echo", "of insert", "ms/echo", "ms/submit")
        print(" ".join(f"{head:>9}" for head in heads))
        for in_flight in (1, 8, 64):
            seen: list[tuple[float, ...]] = []
            with bare_inserts() as inserts:
                for _ in range(ROUNDS):
                    base, base_cpu = await rate(in_flight, lambda: ask(a_submit().SerializeToString()), echo)
                    made, cpu = await rate(in_flight, lambda: jobs.Submit(a_submit(), metadata=who), ours)
                    bare, _ = await rate(in_flight, inserts, None)
                    seen.append((base, bare, made, made / base, made / bare, base_cpu, cpu))
            base, bare, made, of_echo, of_insert, base_cpu, cpu = (median(column) for column in zip(*seen, strict=True))
            rates = f"{base:>9.0f} {bare:>9.0f} {made:>9.0f} {of_echo:>9.2f} {of_insert:>9.2f}"
            print(f"{in_flight:>9} {rates} {base_cpu:>9.2f} {cpu:>9.2f}")
        for size in (100, 1000, 10_000):
            begun, count = time.perf_counter(), 0
            while time.perf_counter() - begun < SECONDS:
                batch = jobs_pb2.SubmitBatchRequest(jobs=[a_submit() for _ in range(size)])
                count += len((await jobs.SubmitBatch(batch, metadata=who)).jobs)
            print(f"batches of {size:,}: {count / (time.perf_counter() - begun):,.0f} jobs/s stored")
            print(f"    all of them decided at {await decided(jobs, who, count, begun):,.0f} jobs/s")


def main(arguments: list[str]) -> None:
    """Register the fleet, then measure."""
    print(f"submitting: {CLUSTERS} clusters, policy random, authentication, decision record and events included")
    with a_server() as (server, ours), an_echo() as echo:
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            for number in range(CLUSTERS):
                calls.register(f"c{number:03}", a_graph(nodes=200, cores=64))
        asyncio.run(measure(ours, echo))

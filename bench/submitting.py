"""Submitting over gRPC: durable single submits and batches against a bare echo of the same bytes in the same run."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable

from grpc import aio

from bench._server import ECHO, Process, a_server, an_echo
from rainbow.jobspecs.canonical import to_json
from rainbow.pb.v2 import jobs_pb2, jobs_pb2_grpc
from tests.support.calls import Calls, bearer
from tests.support.service import a_graph, a_request

SECONDS = 4.0
CLUSTERS = 100
_tokens = itertools.count()
SPECS = [to_json(a_request(nodes=1 + i % 3, cores=1 + i % 7)) for i in range(50)]


def a_submit() -> jobs_pb2.SubmitRequest:
    """A job of one of fifty shapes, with its own client token."""
    number = next(_tokens)
    spec = jobs_pb2.Spec(canonical=SPECS[number % len(SPECS)])
    return jobs_pb2.SubmitRequest(name="bench", spec=spec, client_token=f"t{number}")


async def rate(in_flight: int, call: Callable[[], Awaitable[object]], server: Process) -> tuple[float, float]:
    """Calls per second with so many in flight, and the server's processor milliseconds for each."""
    done = 0
    until = time.perf_counter() + SECONDS
    before, begun = server.cpu(), time.perf_counter()

    async def worker() -> None:
        nonlocal done
        while time.perf_counter() < until:
            await call()
            done += 1

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    return done / (time.perf_counter() - begun), 1000 * (server.cpu() - before) / done


async def measure(ours: Process, echo: Process) -> None:
    """Each figure beside the echo's, one after the other in the same run."""
    async with aio.insecure_channel(ours.address) as channel, aio.insecure_channel(echo.address) as bare:
        jobs = jobs_pb2_grpc.JobsStub(channel)
        who = bearer(ours.token)
        for _ in range(300):  # the first jobs of a shape or a cluster are dearer
            await jobs.Submit(a_submit(), metadata=who)
        ask = bare.unary_unary(ECHO)
        print(f"{'in flight':>12} {'echo/s':>9} {'submit/s':>9} {'ratio':>6} {'ms/echo':>8} {'ms/submit':>9}")
        for in_flight in (1, 8, 64):
            base, base_cpu = await rate(in_flight, lambda: ask(a_submit().SerializeToString()), echo)
            made, cpu = await rate(in_flight, lambda: jobs.Submit(a_submit(), metadata=who), ours)
            print(f"{in_flight:>12} {base:>9.0f} {made:>9.0f} {made / base:>6.2f} {base_cpu:>8.2f} {cpu:>9.2f}")
        for size in (100, 1000):
            begun, count = time.perf_counter(), 0
            while time.perf_counter() - begun < SECONDS:
                batch = jobs_pb2.SubmitBatchRequest(jobs=[a_submit() for _ in range(size)])
                count += len((await jobs.SubmitBatch(batch, metadata=who)).jobs)
            print(f"batch of {size}: {count / (time.perf_counter() - begun):,.0f} jobs/s")


def main(arguments: list[str]) -> None:
    """Register the fleet, then measure."""
    print(f"submitting: {CLUSTERS} clusters, policy random, authentication, decision record and events included")
    with a_server() as (house, ours), an_echo() as echo:
        with house.channel() as channel:
            calls = Calls(channel, house.admin_token)
            for number in range(CLUSTERS):
                calls.register(f"c{number:03}", a_graph(nodes=200, cores=64))
        asyncio.run(measure(ours, echo))

"""Benchmark of waiting agents: the cost of an idle agent for the server, and the delay of an offer.

`--agents N` sets the number of agents (default 1,000), `--jobs N` the number of jobs.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from random import Random

from grpc import aio

from bench._server import Process, a_server
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.pb.v2 import agents_pb2, agents_pb2_grpc, jobs_pb2, jobs_pb2_grpc
from tests.support.calls import Calls, bearer
from tests.support.service import a_graph, a_request

CHANNELS = 20
ALONE = (("grpc.use_local_subchannel_pool", 1),)  # a separate connection per channel; one carries at most 1,000 calls
SUBMITS_PER_SECOND = 20.0
IDLE_SECONDS = 10.0  # for which idle agents are measured
SPEC = to_json(a_request())


@dataclass
class Agent:
    """An agent that accepts every offer and waits for more."""

    name: str
    secret: str
    stub: agents_pb2_grpc.AgentsStub
    arrived: dict[int, float]  # job -> when its offer came
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Send one Sync after the other."""
        seq, taken = 0, list[agents_pb2.AttemptRef]()
        while True:
            seq += 1
            wait = 0.0 if taken or seq < 3 else 25.0  # the first answer asks for everything again
            request = agents_pb2.SyncRequest(
                cluster=self.name, epoch="bench.1", seq=seq, want=1, accepts=taken, wait=wait, manager="bench"
            )
            if wait:
                self.waits.set()
            answer = await self.stub.Sync(request, metadata=bearer(self.secret), timeout=60)
            for offer in answer.offers:
                self.arrived[offer.attempt.job] = time.perf_counter()
            taken = [offer.attempt for offer in answer.offers]


def print_quantiles(name: str, seconds: list[float], limit: float = math.inf) -> None:
    """Print one line of quantiles; `limit` is for p99 in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100)
    good = "" if limit == math.inf else f"   limit {limit:g}: {'ok' if cuts[98] * 1e3 <= limit else 'EXCEEDED'}"
    print(f"  {name:<44} p50 {cuts[49] * 1e3:6.1f}  p99 {cuts[98] * 1e3:6.1f} ms{good}")


async def measure(server: Process, secrets: dict[str, str], count: int) -> None:
    """Measure all agents while idle, then submit jobs to single agents."""
    arrived: dict[int, float] = {}
    async with AsyncExitStack() as stack:
        opened = [aio.insecure_channel(server.address, options=ALONE) for _ in range(CHANNELS)]
        channels = [await stack.enter_async_context(channel) for channel in opened]
        stubs = [agents_pb2_grpc.AgentsStub(channel) for channel in channels]
        agents = [Agent(name, secret, stubs[i % CHANNELS], arrived) for i, (name, secret) in enumerate(secrets.items())]
        before = server.memory()
        running = [asyncio.create_task(agent.run()) for agent in agents]
        try:
            waiting = asyncio.gather(*(agent.waits.wait() for agent in agents))
            done, _ = await asyncio.wait([waiting, *running], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises the error of an agent that failed
            await asyncio.sleep(2.0)
            cpu = server.cpu()
            await asyncio.sleep(IDLE_SECONDS)
            idle = (server.cpu() - cpu) / IDLE_SECONDS
            grown = (server.memory() - before) / len(agents)
            print(f"  an idle agent: {grown / 1024:.0f} KiB; all of them: {100 * idle:.1f} % of a processor")
            await offers(jobs_pb2_grpc.JobsStub(channels[0]), server, list(secrets), count, arrived)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def offers(
    jobs: jobs_pb2_grpc.JobsStub, server: Process, names: list[str], count: int, arrived: dict[int, float]
) -> None:
    """Submit jobs at a constant rate, each to one cluster."""
    rng, sent, stored = Random(1), dict[int, float](), dict[int, float]()

    async def one(number: int) -> None:
        await asyncio.sleep(number / SUBMITS_PER_SECOND)
        terms = jobs_pb2.Terms(only_clusters=[rng.choice(names)])
        request = jobs_pb2.SubmitRequest(name="bench", spec=jobs_pb2.Spec(canonical=SPEC), terms=terms)
        begun = time.perf_counter()
        answer = await jobs.Submit(request, metadata=bearer(server.token), timeout=60)
        sent[answer.id], stored[answer.id] = begun, time.perf_counter()

    cpu = server.cpu()
    await asyncio.gather(*(one(number) for number in range(count)))
    await asyncio.sleep(2.0)  # for the last of them
    print(f"  {len(arrived)} of {count} offers arrived; {1e3 * (server.cpu() - cpu) / count:.1f} ms of processor each")
    print_quantiles(
        "from the submit's answer to the offer", [max(0.0, at - stored[job]) for job, at in arrived.items()], 200
    )
    print_quantiles("from the submit's sending to the offer", [at - sent[job] for job, at in arrived.items()])


def main(arguments: list[str]) -> None:
    """Register the fleet, then measure."""
    parser = argparse.ArgumentParser(prog="bench polling")
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=400)
    options = parser.parse_args(arguments)
    print(f"polling: {options.agents:,} agents on loopback, {SUBMITS_PER_SECOND:g} submits a second")
    with a_server() as (server, usage):
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            graph = a_graph(nodes=8, cores=32)
            names = [f"c{number:05}" for number in range(options.agents)]
            secrets = {name: calls.register(name, graph, manager="bench").secret for name in names}
        asyncio.run(measure(usage, secrets, options.jobs))

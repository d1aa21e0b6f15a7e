"""Many agents that wait: what an idle one costs the server, and how long an offer takes to arrive.

`--agents N` for another number (the default is 1,000), `--jobs N` for the jobs that are submitted meanwhile.
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
ALONE = (
    ("grpc.use_local_subchannel_pool", 1),
)  # each channel a connection of its own; one carries 1,000 calls at most
PER_SECOND = 20.0
WATCHED = 10.0  # seconds in which idle agents are watched
SPEC = to_json(a_request())


@dataclass
class Agent:
    """One agent that takes what it is offered and waits for more."""

    name: str
    secret: str
    stub: agents_pb2_grpc.AgentsStub
    arrived: dict[int, float]  # job -> when its offer came
    waits: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Sync after Sync."""
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


def told(name: str, seconds: list[float], asked: float = math.inf) -> None:
    """Print one line of quantiles."""
    cuts = statistics.quantiles(seconds, n=100)
    good = "" if asked == math.inf else f"   asked {asked:g}: {'yes' if cuts[98] * 1e3 <= asked else 'NO'}"
    print(f"  {name:<44} p50 {cuts[49] * 1e3:6.1f}  p99 {cuts[98] * 1e3:6.1f} ms{good}")


async def measure(server: Process, secrets: dict[str, str], count: int) -> None:
    """Let all agents wait, watch them, then submit jobs to single ones."""
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
                task.result()  # of an agent that failed: agents do not end otherwise
            await asyncio.sleep(2.0)
            cpu = server.cpu()
            await asyncio.sleep(WATCHED)
            idle = (server.cpu() - cpu) / WATCHED
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
    """Submit jobs one by one at a steady pace, each to a cluster of its own."""
    rng, sent, stored = Random(1), dict[int, float](), dict[int, float]()

    async def one(number: int) -> None:
        await asyncio.sleep(number / PER_SECOND)
        terms = jobs_pb2.Terms(only_clusters=[rng.choice(names)])
        request = jobs_pb2.SubmitRequest(name="bench", spec=jobs_pb2.Spec(canonical=SPEC), terms=terms)
        begun = time.perf_counter()
        answer = await jobs.Submit(request, metadata=bearer(server.token), timeout=60)
        sent[answer.id], stored[answer.id] = begun, time.perf_counter()

    cpu = server.cpu()
    await asyncio.gather(*(one(number) for number in range(count)))
    await asyncio.sleep(2.0)  # for the last of them
    print(f"  {len(arrived)} of {count} offers arrived; {1e3 * (server.cpu() - cpu) / count:.1f} ms of processor each")
    told("from the submit's answer to the offer", [max(0.0, at - stored[job]) for job, at in arrived.items()], 200)
    told("from the submit's sending to the offer", [at - sent[job] for job, at in arrived.items()])


def main(arguments: list[str]) -> None:
    """Register the fleet, then measure."""
    parser = argparse.ArgumentParser(prog="bench polling")
    parser.add_argument("--agents", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=400)
    asked = parser.parse_args(arguments)
    print(f"polling: {asked.agents:,} agents on loopback, {PER_SECOND:g} submits a second")
    with a_server() as (server, server):
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            graph = a_graph(nodes=8, cores=32)
            names = [f"c{number:05}" for number in range(asked.agents)]
            secrets = {name: calls.register(name, graph, manager="bench").secret for name in names}
        asyncio.run(measure(server, secrets, asked.jobs))

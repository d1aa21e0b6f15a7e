"""Benchmark of many short jobs: `true` through a server and one local agent, compared with a loop."""

from __future__ import annotations

import subprocess
import sys
import time

from bench._server import Process, a_server
from rainbow_sched.client.submission import JobSubmission, command
from rainbow_sched.model.job import Terms
from tests.support.fleet import Fleet, Tally

JOBS = 500
MAX_RUNNING_JOBS = 64


def plain(count: int) -> float:
    """Return starts of `true` per second, one after the other."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["true"], check=True)
    return count / (time.perf_counter() - began)


def main(arguments: list[str]) -> None:
    """Print jobs per second and the processor time of server and agent for one job."""
    count = int(arguments[0]) if arguments else JOBS
    with a_server() as (server, usage):
        fleet = Fleet(server, Tally(server.folder))
        agent = fleet.add("one", "--max-jobs", str(MAX_RUNNING_JOBS), "--quiet", nodes=1, cores=MAX_RUNNING_JOBS)
        fleet.ended(fleet.submit("one"))  # warm up server and agent
        assert agent.process is not None
        hand = Process("", agent.process.pid)
        terms = Terms(only_clusters=("one",))
        submissions = [
            JobSubmission(text=command(["true"]), dialect="flux", name="true", terms=terms) for _ in range(count)
        ]
        used = usage.cpu(), hand.cpu()
        ended = fleet.ended(*(answer.id for answer in fleet.client.submit_batch(submissions)))
        cost = usage.cpu() - used[0], hand.cpu() - used[1]
        assert {job.state for job in ended} == {"succeeded"}
        first = min(job.started_at for job in ended if job.started_at)
        last = max(job.ended_at for job in ended if job.ended_at)
        agent.stop()
    rate, bare = count / max(1e-9, last - first), plain(200)
    print(f"{count} jobs in {last - first:.1f} s from the first start to the last end: {rate:.0f} jobs/s")
    print(f"`true` in a plain loop: {bare:.0f}/s, so one job costs as much time as {bare / rate:.0f} bare starts")
    print(f"processor time per job: server {cost[0] / count * 1e3:.2f} ms, agent {cost[1] / count * 1e3:.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Two Flux instances behind one real server, their agents killed at random: every job runs exactly once."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.fleet import Fleet, a_fleet
from tests.support.flux_stand_in import StandIn, an_r
from tests.support.flux_stand_in.real import a_real_flux

pytestmark = pytest.mark.timeout(400)
JOBS = int(os.environ.get("RAINBOW_FLUX_JOBS", "200"))  # with a real Flux; the stand-in is slower
KILLS = int(os.environ.get("RAINBOW_FLUX_KILLS", "10"))
QUICK = ("-O", "interval=0.5", "-O", "facts_interval=5", "-O", "settle=2")
# Two cores: Flux complains in a job's own errors of cores that the machine does not have.
R = an_r(dict.fromkeys(("n0", "n1", "n2", "n3"), "0-1"))


@pytest.fixture(params=["stand-in", "real"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """One instance with Fluxion, one with the simple scheduler."""
    with contextlib.ExitStack() as stack:
        instances = [
            stack.enter_context(a_real_flux(R, fluxion=fluxion))
            if request.param == "real"
            else StandIn(tmp_path / f"instance-{fluxion}", R, fluxion=fluxion)
            for fluxion in (True, False)
        ]
        running = stack.enter_context(a_fleet(tmp_path))
        for name, instance in zip(("fluxion", "simple"), instances, strict=True):
            where = ("-O", f"uri={instance.uri}", "-O", f"flux={instance.program}")
            running.add(name, "--backend", "flux", *where, *QUICK, nodes=4, cores=2)
        yield running


def test_jobs_in_two_instances_outlive_agents_that_are_killed_at_any_moment(
    fleet: Fleet, request: pytest.FixtureRequest
) -> None:
    real = request.node.callspec.params["fleet"] == "real"
    rng = Random(11)
    codes = fleet.submit_many(JOBS if real else 40, seconds=lambda i: 0.02 + rng.random() / 2)
    fleet.ended(min(codes))
    for _ in range(KILLS if real else 4):
        victim = rng.choice(list(fleet.agents.values()))
        victim.lives(0.3 + rng.random() * 2)
        victim.kill()
        victim.start()
    counts = fleet.counts(codes)
    ran = {job.cluster for job in fleet.ended(*codes)}
    print(f"{sum(agent.kills for agent in fleet.agents.values())} kills of agents: {counts}")
    counts.check()
    assert ran == {"fluxion", "simple"}

"""Jobs of an earlier agent of the cluster, whose tags come again because its server was set up anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rainbow_sched.agent.backends.slurm.backend import SlurmBackend
from tests.support.backends import Desk, a_request, leave


async def test_a_job_is_not_taken_for_one_of_an_earlier_agent_with_the_same_tag(desk: Desk, tmp_path: Path):
    earlier = await desk.run(a_request("sh", "-c", "exit 3"))
    settings = replace(desk.backend.settings, directory=tmp_path / "anew")
    anew = Desk(lambda: SlurmBackend(settings), tmp_path)
    await anew.backend.start()
    await anew.backend.poll()
    update = await anew.run(a_request("echo", "anew"))
    assert update.native != earlier.native
    assert update.result.exit_code == 0
    assert await anew.out(update.tag) == b"anew\n"
    await leave(anew)

"""T22: with its own secret a cluster leaves only when nothing runs there; an administrator removes it any time."""

from __future__ import annotations

from pathlib import Path

from rainbow_sched.pb.v2 import agents_pb2
from tests.unit.access.calls import ask, code_of
from tests.unit.access.world import OWN, a_world


async def test_a_stolen_agent_secret_cannot_throw_away_what_runs(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        channel, agent, admin = world.channel, world.credentials["agent-alpha"], world.credentials["admin"]
        said = {"cluster": "alpha", "epoch": "journal.e"}
        await ask(channel, "Agents/Sync", agent, **said, seq=1)
        offered = await ask(channel, "Agents/Sync", agent, **said, seq=2, want=10)
        assert [offer.attempt.job for offer in offered.offers] == [world.jobs[OWN]]
        taken = [agents_pb2.AttemptRef.FromString(offer.attempt.SerializeToString()) for offer in offered.offers]
        await ask(channel, "Agents/Sync", agent, **said, seq=3, accepts=taken)
        assert await code_of(ask(channel, "Clusters/Delete", agent, cluster="alpha")) == "FAILED_PRECONDITION"
        assert (await ask(channel, "Jobs/Get", world.credentials["ana"], id=world.jobs[OWN])).state == "bound"
        ended = [agents_pb2.Report(attempt=taken[0], state="succeeded", exit_code=0)]
        await ask(channel, "Agents/Sync", agent, **said, seq=4, reports=ended)
        assert await code_of(ask(channel, "Clusters/Delete", agent, cluster="alpha")) == "OK"
        assert await code_of(ask(channel, "Clusters/Delete", admin, cluster="alpha")) == "NOT_FOUND"


async def test_an_administrator_removes_a_cluster_whatever_runs_there(tmp_path: Path) -> None:
    async with a_world(tmp_path / "world") as world:
        channel, agent = world.channel, world.credentials["agent-alpha"]
        said = {"cluster": "alpha", "epoch": "journal.e"}
        await ask(channel, "Agents/Sync", agent, **said, seq=1)
        offered = await ask(channel, "Agents/Sync", agent, **said, seq=2, want=10)
        taken = [agents_pb2.AttemptRef.FromString(offer.attempt.SerializeToString()) for offer in offered.offers]
        await ask(channel, "Agents/Sync", agent, **said, seq=3, accepts=taken)
        await ask(channel, "Clusters/Delete", world.credentials["admin"], cluster="alpha", jobs="lose")
        job = await ask(channel, "Jobs/Get", world.credentials["admin"], id=world.jobs[OWN])
        assert (job.state, job.failure) == ("failed", "lost")

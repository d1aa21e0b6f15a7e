"""The Flux backend when things go wrong that a shared real instance cannot be made to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rainbow_sched.agent.core.values import Phase, Unknown
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.errors import Unavailable
from tests.contract.flux.conftest import Flux, R, a_flux, leave
from tests.support.backends import a_launch, a_request
from tests.support.flux_stand_in import StandIn


async def followed(flux: Flux) -> None:
    """Return when the journal is read."""
    await flux.wait(lambda: flux.backend.follower.table is not None)


async def test_an_instance_that_does_not_answer_means_unknown(stand_in: Flux):
    tag = await stand_in.submit(a_request("sh", "-c", "echo up; exec sleep 60"))
    await stand_in.until_output(tag, b"up")
    stand_in.instance.stop()
    with pytest.raises(Unavailable):
        await stand_in.backend.poll()
    assert isinstance(await stand_in.backend.lookup(tag), Unknown)
    with pytest.raises(Unavailable):
        await stand_in.backend.submit(a_launch(a_request("true"), job=2))
    stand_in.instance.start()
    await stand_in.until(tag, Phase.RUNNING)
    await stand_in.backend.cancel(tag)
    assert (await stand_in.until(tag, Phase.ENDED)).result.state is AttemptState.CANCELLED


async def test_an_instance_that_comes_back_is_followed_again(stand_in: Flux):
    await followed(stand_in)
    stand_in.instance.stop()
    await stand_in.wait(lambda: stand_in.backend.follower.table is None)
    stand_in.instance.start()
    await followed(stand_in)
    assert (await stand_in.run(a_request("true"))).result.state is AttemptState.SUCCEEDED


@pytest.mark.parametrize("lack", [StandIn.without_python, StandIn.for_a_guest])
async def test_without_a_journal_jobs_are_asked_for(tmp_path: Path, lack, caplog: pytest.LogCaptureFixture):
    instance = StandIn(tmp_path / "instance", R)
    lack(instance)
    flux = await a_flux(tmp_path, instance)
    assert (await flux.run(a_request("sh", "-c", "exit 3"))).result.exit_code == 3
    await flux.wait(lambda: "cannot follow the journal of Flux" in caplog.text)
    assert flux.backend.follower.table is None
    assert (await flux.backend.bid(a_request("true"))).start_p50 == 0.0
    await leave(flux)


async def test_nodes_that_are_down_are_marked_and_come_back(stand_in: Flux):
    stand_in.instance.set_states(offline=[0], drained=[2])
    assert (await stand_in.backend.facts()).marks == {"rank0": "down", "rank2": "drained"}
    stand_in.instance.set_states()
    await stand_in.again()
    assert (await stand_in.backend.facts()).marks == {"rank0": "up", "rank2": "up"}

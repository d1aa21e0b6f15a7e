"""Flux instances for the tests of the Flux backend: the stand-in always, the real one when it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rainbow.agent.backends import BackendSettings
from rainbow.agent.backends.flux import make
from rainbow.agent.values import Phase
from tests.contract.backends.conftest import Desk, a_graph
from tests.support.flux_stand_in import StandIn, an_r, real_flux, real_instance

ONE_NODE = an_r({"n0": "0-1"})


@pytest.fixture(scope="session")
def real_uri() -> Iterator[str]:
    """A real instance of the shape that the common suite expects."""
    yield from real_instance(ONE_NODE)


@pytest.fixture(params=["stand-in", "real"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """The desk of the common suite, with a Flux instance behind it."""
    if request.param == "real":
        uri, program = request.getfixturevalue("real_uri"), str(real_flux())
    else:
        stand_in = StandIn(tmp_path / "instance", ONE_NODE)
        uri, program = stand_in.uri, stand_in.program
    settings = BackendSettings(
        cluster=tmp_path.name.replace("_", "-"),
        directory=tmp_path / "state",
        graph=a_graph(),
        options={"uri": uri, "flux": program, "interval": "0.2", "facts_interval": "0"},
    )
    desk = Desk(lambda: make(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()

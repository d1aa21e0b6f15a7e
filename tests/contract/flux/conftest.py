"""Flux instances for the tests of the Flux backend: the stand-in always, the real one when it is there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings
from rainbow_sched.agent.backends.flux.backend import FluxBackend
from rainbow_sched.agent.backends.flux.files import FluxFiles
from rainbow_sched.discovery.flux import flux_graph
from tests.support.backends import Desk, a_graph, leave
from tests.support.flux_stand_in import StandIn, an_r
from tests.support.flux_stand_in.real import RealFlux, a_real_flux

ONE_NODE = an_r({"n0": "0-1"})
R = an_r({"a1": "0-3", "a2": "0-3", "g1": "0-7"}, properties={"ib": "0-1"})


@pytest.fixture(scope="session")
def fluxion() -> Iterator[RealFlux]:
    """A real instance of the shape that the common suite expects, with Fluxion if that is installed."""
    with a_real_flux(ONE_NODE) as instance:
        yield instance


@pytest.fixture(scope="session")
def simple() -> Iterator[RealFlux]:
    """The same with Flux's simple scheduler."""
    with a_real_flux(ONE_NODE, fluxion=False) as instance:
        yield instance


@pytest.fixture(scope="session")
def fluxion_site() -> Iterator[RealFlux]:
    """A real instance of three nodes."""
    with a_real_flux(R) as instance:
        yield instance


@pytest.fixture(scope="session")
def simple_site() -> Iterator[RealFlux]:
    """The same with Flux's simple scheduler."""
    with a_real_flux(R, fluxion=False) as instance:
        yield instance


@pytest.fixture(params=["stand-in", "stand-in, no journal", "fluxion", "simple, no journal"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    """The desk of the common suite, with a Flux instance behind it."""
    name, _, without = request.param.partition(", ")
    instance = StandIn(tmp_path / "instance", ONE_NODE) if name == "stand-in" else request.getfixturevalue(name)
    options = {"uri": instance.uri, "flux": instance.program, "interval": "0.2", "facts_interval": "0"}
    settings = BackendSettings(
        cluster=tmp_path.name.replace("_", "-"),
        directory=tmp_path / "state",
        graph=a_graph(),
        options={**options, "journal": "no"} if without else options,
    )
    desk = Desk(lambda: FluxBackend(settings), tmp_path)
    await desk.backend.start()
    yield desk
    await leave(desk)


class Flux(Desk):
    """A desk with the instance behind it."""

    instance: StandIn | RealFlux
    backend: FluxBackend

    def files(self, tag: str = "rb-1-1") -> FluxFiles:
        return FluxFiles(self.backend.root, tag)


async def a_flux(tmp_path: Path, instance: StandIn | RealFlux, r: dict[str, object] = R) -> Flux:
    """A desk at this instance; its cluster's name is this test's own."""
    cluster = tmp_path.name.replace("_", "-").replace("[", "-").rstrip("]")
    settings = BackendSettings(
        cluster=cluster,
        directory=tmp_path / "state",
        graph=flux_graph(cluster, r),
        options={
            "uri": instance.uri,
            "flux": instance.program,
            "interval": "0.2",
            "facts_interval": "0",
            "settle": "0.5",
        },
    )
    desk = Flux(lambda: FluxBackend(settings), tmp_path)
    desk.instance = instance
    await desk.backend.start()
    return desk


@pytest.fixture(params=["stand-in", "fluxion_site", "simple_site"])
async def flux(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Flux]:
    """Three nodes, two of them with the property `ib`."""
    real = request.param != "stand-in"
    made = await a_flux(tmp_path, request.getfixturevalue(request.param) if real else StandIn(tmp_path / "instance", R))
    yield made
    made.instance.set_states()
    await leave(made)


@pytest.fixture
async def stand_in(tmp_path: Path) -> AsyncIterator[Flux]:
    """The stand-in alone, for what a real instance cannot be made to do."""
    made = await a_flux(tmp_path, StandIn(tmp_path / "instance", R))
    yield made
    await leave(made)

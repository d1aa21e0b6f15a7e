"""A cluster that changes under its agent: what is told of it, when, and what becomes of the jobs there."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rainbow_sched.agent.backends import BackendSettings, load_backend
from rainbow_sched.agent.core.values import Phase
from rainbow_sched.agent.runtime.registration import (
    GRAPH_FILE,
    Rediscovery,
    RegisteredState,
    read_state,
    to_documents,
    write_state,
)
from rainbow_sched.discovery.finder import DiscoveredCluster
from rainbow_sched.graphs.formats.reader import read, read_subsystem
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.errors import Unavailable
from rainbow_sched.model.graph import Graph, Subsystem, Vertex
from tests.support.backends import Desk, a_graph, a_request


class House:
    """Holds a cluster's graphs as the server does: a subsystem must hang on what is there."""

    def __init__(self) -> None:
        self.graph = a_graph()
        self.subsystems: dict[str, Subsystem] = {}
        self.calls: list[str] = []
        self.away = 0  # calls that fail from now on, after the first `away`

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if self.away and len(self.calls) >= self.away:
            raise Unavailable("no server answers")

    async def replace_graph(self, name: str, graph: bytes) -> int:
        self._called("graph")
        made = read(graph)
        for one in self.subsystems.values():
            edges = [(host, vertex.id) for vertex, _, hosts in one.items() for host in hosts]
            Subsystem.build(one.name, made.positions(), one.vertices, edges)
        self.graph = made
        return len(made)

    async def put_subsystem(self, name: str, subsystem: str, graph: bytes) -> int:
        self._called(f"put {subsystem}")
        self.subsystems[subsystem] = read_subsystem(subsystem, self.graph, graph)
        return 1

    async def delete_subsystem(self, name: str, subsystem: str) -> None:
        self._called(f"delete {subsystem}")
        del self.subsystems[subsystem]

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[House]:
        yield self


def a_cluster(cores: int = 2, **features: str) -> DiscoveredCluster:
    """One node; each feature is the name of a subsystem and of what it hangs on."""
    graph = a_graph(cores)
    made = [
        Subsystem.build(name, graph.positions(), [Vertex(id=name, type="t", name=name)], [(host, name)])
        for name, host in features.items()
    ]
    return DiscoveredCluster(manager="local", version="", graph=graph, subsystems=tuple(made))


class Place:
    """Where a cluster is, an agent that looks at it, and the server."""

    def __init__(self, directory: Path, found: DiscoveredCluster) -> None:
        self.house, self.found, self.directory = House(), found, directory
        self.shapes: list[Graph] = []
        write_state(directory, RegisteredState())
        self.restart()

    def restart(self) -> None:
        self.looking = Rediscovery("here", lambda: self.found, self.house.client, self.directory, 60.0)

    async def look(self, times: int = 2) -> bool:
        return [await self.looking.check(self.shapes.append) for _ in range(times)][-1]

    @property
    def settled(self) -> bool:
        registered_state = to_documents(self.found).registered_state()
        names = set(registered_state.subsystems)
        return read_state(self.directory) == registered_state and set(self.house.subsystems) == names


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    made = Place(tmp_path, a_cluster(arch="n", net="core1"))
    assert await made.look()
    made.house.calls.clear()
    made.shapes.clear()
    return made


async def test_what_did_not_change_is_not_told_again_also_after_a_restart(place: Place):
    place.restart()
    assert not await place.look(5)
    assert place.house.calls == []


async def test_a_change_is_told_once_it_was_seen_twice(place: Place):
    place.found = a_cluster(4, arch="n", net="core1")
    assert not await place.look(1)
    assert place.house.calls == []
    assert await place.look(1)
    assert place.house.calls == ["graph"]
    assert place.shapes == [place.found.graph]
    assert read((place.directory / GRAPH_FILE).read_bytes()) == place.found.graph


async def test_a_change_that_is_gone_at_the_second_look_was_none(place: Place):
    before, place.found = place.found, a_cluster(4)
    await place.look(1)
    place.found = before
    assert not await place.look(3)
    assert place.house.calls == []


async def test_only_the_subsystem_that_changed_is_sent(place: Place):
    place.found = a_cluster(arch="core0", net="core1", software="c")
    assert await place.look()
    assert place.house.calls == ["put arch", "put software"]
    assert place.shapes == []
    place.found = a_cluster(arch="core0", net="core1")
    assert await place.look()
    assert place.house.calls[2:] == ["delete software"]


async def test_a_vertex_may_go_that_a_subsystem_hung_on(place: Place):
    place.found = a_cluster(1, arch="n", net="core0")
    assert await place.look()
    assert place.settled
    assert place.house.graph == place.found.graph


@pytest.mark.parametrize("away", range(1, 7))
async def test_a_server_that_goes_away_in_the_middle_is_told_the_rest_later(place: Place, away: int):
    place.found = a_cluster(1, arch="n", net="core0")
    place.house.away = away
    with contextlib.suppress(Unavailable):
        await place.look()
    place.house.away = 0
    place.restart()  # and the agent was killed then
    await place.look()
    assert place.settled


async def test_a_hint_is_another_shape_than_the_last(place: Place):
    for shape in ("", "a", "", "a"):
        place.looking.hint(shape)
    assert not place.looking._hint.is_set()
    place.looking.hint("b")
    assert place.looking._hint.is_set()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    settings = BackendSettings(cluster="here", directory=tmp_path / "state", graph=a_graph())
    desk = Desk(lambda: load_backend("local")(settings), tmp_path)
    await desk.backend.start()
    yield desk
    for update in await desk.backend.poll():
        if update.phase is not Phase.ENDED:
            await desk.backend.cancel(update.tag)
            await desk.until(update.tag, Phase.ENDED)
    await desk.backend.close()


async def test_a_machine_that_grows_runs_more_and_one_that_shrinks_counts_what_runs(desk: Desk):
    first = await desk.submit(a_request("sleep", "60", cores=2), job=1)
    second = await desk.submit(a_request("sleep", "60", cores=2), job=2)
    await desk.until(first, Phase.RUNNING)
    await desk.until(second, Phase.SUBMITTED)
    desk.backend.reshape(a_graph(4))
    await desk.until(second, Phase.RUNNING)
    desk.backend.reshape(a_graph(3))
    assert (await desk.backend.facts()).state["cores_free"] <= 0
    third = await desk.submit(a_request("true"), job=3)
    await desk.until(third, Phase.SUBMITTED)
    await desk.backend.cancel(first)
    await desk.until(third, Phase.ENDED)


async def test_what_waits_and_can_never_run_on_the_new_machine_goes_elsewhere(desk: Desk):
    await desk.submit(a_request("sleep", "60"), job=1)
    waiting = await desk.submit(a_request("true", cores=2), job=2)
    await desk.until(waiting, Phase.SUBMITTED)
    desk.backend.reshape(a_graph(1))
    ended = await desk.until(waiting, Phase.ENDED)
    assert ended.result.state is AttemptState.RETURNED
    assert "the machine changed" in ended.result.reason


async def test_a_restarted_agent_counts_what_runs_on_a_machine_of_another_shape(desk: Desk, tmp_path: Path):
    tag = await desk.submit(a_request("sleep", "60", cores=2), job=1)
    await desk.until(tag, Phase.RUNNING)
    larger = BackendSettings(cluster="here", directory=tmp_path / "state", graph=a_graph(3))
    desk._make = lambda: load_backend("local")(larger)
    await desk.again()
    assert (await desk.backend.facts()).state["cores_free"] == 1

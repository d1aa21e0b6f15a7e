"""Clusters come whole or not at all, change without being registered again, and leave nothing behind."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.graphs.formats.packed_graph import pack
from rainbow_sched.graphs.formats.reader import read
from rainbow_sched.model.errors import AlreadyExists, Invalid, NotFound, Unauthenticated
from rainbow_sched.model.job_state import JobState
from rainbow_sched.service.clusters import registration, reported_state
from rainbow_sched.service.views import jobs
from tests.support.manual_clock import ManualClock
from tests.support.service import ADMIN, a_graph, a_service, a_submission, submit, with_cluster

SOFTWARE = {
    "graph": {
        "nodes": {"s0": {"metadata": {"type": "software", "name": "lammps", "version": "2024.1"}}},
        "edges": [{"source": "ROOT", "target": "s0", "relation": "contains"}],
    }
}


async def a_subsystem(service: object, name: str) -> bytes:
    graph = await reported_state.dominant(service.core, name)  # type: ignore[attr-defined]
    return json.dumps(SOFTWARE).replace("ROOT", graph.ids[0]).encode()


async def test_a_taken_name_is_answered_as_such_without_credentials(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        assert await registration.register(service.core, "east", a_graph()) is None


async def test_a_bad_graph_leaves_the_name_free(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        cycle = {
            "graph": {
                "nodes": {"a": {"metadata": {"type": "cluster"}}, "b": {"metadata": {"type": "node"}}},
                "edges": [
                    {"source": "a", "target": "b", "relation": "contains"},
                    {"source": "b", "target": "a", "relation": "contains"},
                ],
            }
        }
        with pytest.raises(Invalid):
            await registration.register(service.core, "east", json.dumps(cycle).encode())
        assert await registration.register(service.core, "east", a_graph()) is not None


async def test_a_name_must_be_one_that_can_be_shown_and_typed(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        for name in ("", "a b", "x\x1b[2J", "../etc", "%", "a" * 200, "-x"):
            with pytest.raises(Invalid):
                await registration.register(service.core, name, a_graph())


async def test_a_deleted_name_inherits_nothing(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        old = await with_cluster(service, "east", nodes=1, cores=4)
        await reported_state.update_state(service.core, "east", {"nodes_free": 1})
        [job] = await submit(service, a_submission(cores=4))
        await registration.delete(service.core, "east")
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, job.id, ADMIN)).job.state is JobState.HELD
        new = await with_cluster(service, "east", nodes=1, cores=2)
        assert new.secret != old.secret
        with pytest.raises(Unauthenticated):
            await service.core.credential_resolver.resolve(old.secret, service.core.clock.now())
        view = await reported_state.view(service.core, "east")
        assert view.cluster.state == {}
        assert view.queued == 0


async def test_jobs_not_begun_move_on_when_their_cluster_is_deleted(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        [job] = await submit(service, a_submission())
        await with_cluster(service, "west")
        assert (await registration.delete(service.core, "east")).moved == 1
        await service.scheduling_loop.decide_pending()
        view = await jobs.get(service.core, job.id, ADMIN)
        assert (view.job.state, view.job.cluster) == (JobState.BOUND, "west")


async def test_subsystems_come_are_replaced_and_go(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        text = await a_subsystem(service, "east")
        assert await registration.put_subsystem(service.core, "east", "software", text) == 1
        with pytest.raises(AlreadyExists):
            await registration.put_subsystem(service.core, "east", "software", text, replace=False)
        await registration.delete_subsystem(service.core, "east", "software")
        with pytest.raises(NotFound):
            await registration.delete_subsystem(service.core, "east", "software")
        for own in ("", "cluster"):
            with pytest.raises(Invalid):
                await registration.delete_subsystem(service.core, "east", own)


async def test_a_subsystem_vertex_that_hangs_on_nothing_is_named(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east")
        with pytest.raises(Invalid, match="s0"):
            await registration.put_subsystem(service.core, "east", "software", json.dumps(SOFTWARE).encode())


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=3)
        await registration.put_subsystem(service.core, "east", "software", await a_subsystem(service, "east"))
        await reported_state.update_state(service.core, "east", {"nodes_free": 3, "cost": 1.5})
        await reported_state.patch(service.core, "east", {"n1": "down"}, None)
    async with a_service(tmp_path) as service:
        view = await reported_state.view(service.core, "east")
        assert view.subsystems == ("software",)
        assert view.cluster.state == {"nodes_free": 3, "cost": 1.5}
        assert view.summary is not None
        assert view.summary.totals["node"].free == 2
        [two, three] = await submit(service, a_submission(nodes=2), a_submission(nodes=3))
        assert (two.state, three.state) == (JobState.BOUND, JobState.HELD)


async def test_a_node_that_comes_back_lets_waiting_jobs_go(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=2)
        await reported_state.patch(service.core, "east", {"n1": "drained"}, None)
        [job] = await submit(service, a_submission(nodes=2))
        assert job.state is JobState.HELD
        await reported_state.patch(service.core, "east", {"n1": "up"}, None)
        await service.scheduling_loop.decide_pending()
        assert (await jobs.get(service.core, job.id, ADMIN)).job.state is JobState.BOUND


async def test_a_replaced_graph_counts_what_is_placed_and_keeps_its_subsystems(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await with_cluster(service, "east", nodes=1, cores=4)
        await registration.put_subsystem(service.core, "east", "software", await a_subsystem(service, "east"))
        await submit(service, a_submission(cores=4))
        await registration.replace_graph(service.core, "east", a_graph(nodes=2, cores=4))
        view = await reported_state.view(service.core, "east")
        assert view.summary is not None
        assert view.summary.totals["core"].free == 4
        assert view.subsystems == ("software",)


async def test_states_merge_by_key_and_remember_their_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with a_service(tmp_path, clock=clock) as service:
        await with_cluster(service, "east")
        await reported_state.update_state(service.core, "east", {"a": 1, "b": "x"})
        clock.advance(60)
        merged = await reported_state.update_state(service.core, "east", {"b": "y"})
        assert merged.state == {"a": 1, "b": "y"}
        assert merged.state_at == clock.now()


@pytest.mark.parametrize(
    "text", ["", "[]", "3", '"x"', '{"a": NaN}', '{"a": 1e999}', '{"a": {"b": 1}}', "{", "[" * 9999]
)
def test_a_state_that_is_no_flat_object_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        reported_state.parse_state(text)


def test_a_state_in_a_json_string_is_read_too() -> None:
    assert reported_state.parse_state(json.dumps(json.dumps({"nodes_free": 3}))) == {"nodes_free": 3}


def nodes_named(letter: str) -> bytes:
    vertices = {"r": {"metadata": {"type": "cluster"}}, letter: {"metadata": {"type": "node"}}}
    edges = [{"source": "r", "target": letter, "relation": "contains"}]
    return json.dumps({"graph": {"nodes": vertices, "edges": edges}}).encode()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("vertex", ["n", "m"])
async def test_a_graph_and_a_subsystem_that_change_at_once_still_belong_together_after_a_restart(
    tmp_path: Path, swapped: bool, vertex: str
) -> None:
    async with a_service(tmp_path) as service:
        await registration.register(service.core, "east", nodes_named("n"))
        subsystem = json.dumps(SOFTWARE).replace("ROOT", vertex).encode()
        asked = [
            registration.put_subsystem(service.core, "east", "software", subsystem),
            registration.replace_graph(service.core, "east", nodes_named("m")),
        ]
        answers = await asyncio.gather(*(reversed(asked) if swapped else asked), return_exceptions=True)
        assert all(isinstance(answer, int | Invalid | NotFound) for answer in answers), answers
        assert any(isinstance(answer, int) for answer in answers)
        before = service.core.fleet.member("east").subsystems
    async with a_service(tmp_path) as service:
        member = service.core.fleet.member("east")
        assert (member.broken, member.subsystems) == ("", before)


async def test_a_stored_cluster_that_contradicts_itself_does_not_keep_the_server_from_starting(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await registration.register(service.core, "east", nodes_named("n"))
        await registration.put_subsystem(
            service.core, "east", "software", json.dumps(SOFTWARE).replace("ROOT", "n").encode()
        )
        await with_cluster(service, "west")
        other = pack(read(nodes_named("m")))
        id = service.core.fleet.member("east").cluster.id
        await service.core.store.write(lambda tx: tx.put_graph(id, "", other, 1.0))
    async with a_service(tmp_path) as service:
        assert service.core.fleet.member("east").broken
        assert (await submit(service, a_submission()))[0].cluster == "west"
        await registration.delete_subsystem(service.core, "east", "software")
        await registration.replace_graph(service.core, "east", nodes_named("m"))
        assert not service.core.fleet.member("east").broken
        await registration.delete(service.core, "east")
        assert service.core.fleet.get("east") is None


async def test_a_subsystem_on_its_way_does_not_land_on_another_cluster_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()
    real = registration.read_subsystem

    def slow(*given: Any) -> Any:
        reading.set()
        go_on.wait(20)
        return real(*given)

    monkeypatch.setattr(registration, "read_subsystem", slow)
    async with a_service(tmp_path) as service:
        await registration.register(service.core, "east", nodes_named("n"))
        subsystem = json.dumps(SOFTWARE).replace("ROOT", "n").encode()
        late = asyncio.ensure_future(registration.put_subsystem(service.core, "east", "software", subsystem))
        await asyncio.to_thread(reading.wait, 20)
        await registration.delete(service.core, "east")
        await registration.register(service.core, "east", nodes_named("n"))
        go_on.set()
        with pytest.raises(NotFound):
            await late
        assert service.core.fleet.member("east").subsystems == []


async def test_marks_and_use_of_vertices_that_a_new_graph_lacks_are_dropped(tmp_path: Path) -> None:
    async with a_service(tmp_path) as service:
        await registration.register(service.core, "east", nodes_named("n"))
        await reported_state.patch(service.core, "east", {"n": "down"}, {"n": 1})
        await registration.replace_graph(service.core, "east", nodes_named("m"))
        stored = await service.core.store.read(lambda tx: tx.cluster("east"))
        assert stored is not None
        assert (stored.marks, stored.used) == ({}, {})
    async with a_service(tmp_path) as service:
        assert not service.core.fleet.member("east").broken

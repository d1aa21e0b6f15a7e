"""Clusters and graphs keep what they were told, and a name that was removed brings nothing back."""

from __future__ import annotations

import pytest

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.cluster import Standing
from rainbow_sched.model.errors import AlreadyExists, Conflict, Corrupt, Invalid, NotFound
from rainbow_sched.store import Store
from rainbow_sched.store.base import Tx
from tests.contract.store.builders import a_bound_draft, a_cluster


async def test_a_cluster_is_found_by_its_exact_name_only(store: Store) -> None:
    await a_cluster(store, "perl")
    for other in ("Perl", "per%", "%", "perl ", 'x" OR 1=1 --', ""):
        assert await store.read(lambda tx, other=other: tx.cluster(other)) is None
    found = await store.read(lambda tx: tx.cluster("perl"))
    assert found is not None
    assert (found.name, found.standing, found.registered_at) == ("perl", Standing.ACTIVE, 1.0)


async def test_a_live_name_is_taken(store: Store) -> None:
    await a_cluster(store, "perl")
    with pytest.raises(AlreadyExists):
        await a_cluster(store, "perl")


async def test_every_reported_value_comes_back_as_it_was(store: Store) -> None:
    await a_cluster(store)
    told = {
        "standing": Standing.DRAINING,
        "manager": "slurm",
        "seen_at": 2.5,
        "state": {"nodes_free": 3, "cost": 0.1, "ok": True, "none": None, "tags": ["a", 1], "text": 'é"\u0000'},
        "state_at": 2.25,
        "marks": {"node7": "down"},
        "used": {"core1": 4},
        "rules": {"users": ["ana"]},
        "record": {"bias": 1.5},
        "drain_reason": "new disks",
        "node_rules": NodeRules(hosts=True, subsystems=frozenset({"gpu", "partition"}), groups=True),
        "wrong_nodes": 2,
    }
    changed = await store.write(lambda tx: tx.update_cluster(1, **told))
    assert changed == await store.read(lambda tx: tx.cluster("perl"))
    assert {key: getattr(changed, key) for key in told} == told
    assert changed.version == 1


async def test_clusters_are_listed_by_name(store: Store) -> None:
    await a_cluster(store, "zeta", "Alpha", "beta")
    assert [c.name for c in await store.read(lambda tx: tx.clusters())] == ["Alpha", "beta", "zeta"]


async def test_an_unknown_cluster_cannot_be_changed_or_removed(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.update_cluster(9, manager="flux"))
    with pytest.raises(NotFound):
        await store.write(lambda tx: tx.remove_cluster(9, 1.0))


async def test_a_name_with_nul_is_refused(store: Store) -> None:
    with pytest.raises(Invalid):
        await a_cluster(store, "pe\0rl")


async def test_a_removed_name_can_come_back_and_inherits_nothing(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.put_graph(1, "", b"graph", 1.0))
    await store.write(lambda tx: tx.store_sync("perl", "epoch", 4, b"answer"))
    await store.write(lambda tx: tx.add_jobs([a_bound_draft("perl")]))
    await store.write(lambda tx: tx.add_command(tx.attempts(1)[0], "cancel", 1.0))
    await store.write(lambda tx: tx.remove_cluster(1, 2.0))
    assert await store.read(lambda tx: (tx.cluster("perl"), tx.clusters(), tx.graphs(1))) == (None, [], {})
    old = await store.read(lambda tx: tx.cluster_by_id(1))
    assert old is not None
    assert old.standing is Standing.REMOVED

    again = await store.write(lambda tx: tx.add_cluster("perl", 3.0))
    assert again.id == 2
    assert await store.read(lambda tx: tx.graphs(2)) == {}
    assert await store.read(lambda tx: tx.agent_epoch("perl")) is None
    assert await store.read(lambda tx: tx.live_attempts("perl")) == []
    assert await store.read(lambda tx: tx.commands("perl")) == []
    assert await store.write(lambda tx: tx.lease("perl", 10, "agent", 99.0, now=50.0)) == []


async def test_graphs_are_replaced_listed_and_dropped(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.put_graph(1, "", b"\0\xff dominant", 1.0))
    await store.write(lambda tx: tx.put_graph(1, "spack", b"one", 1.0))
    await store.write(lambda tx: tx.put_graph(1, "io", b"disks", 1.0))
    await store.write(lambda tx: tx.put_graph(1, "spack", b"two", 2.0))
    assert await store.read(lambda tx: tx.graph(1, "")) == b"\0\xff dominant"
    assert await store.read(lambda tx: tx.graphs(1)) == {"": b"\0\xff dominant", "spack": b"two", "io": b"disks"}
    assert await store.read(lambda tx: tx.subsystems(1)) == ["io", "spack"]
    assert await store.write(lambda tx: tx.drop_graph(1, "spack"))
    assert not await store.write(lambda tx: tx.drop_graph(1, "spack"))
    assert await store.read(lambda tx: tx.graph(1, "spack")) is None


async def test_a_graph_that_changed_on_disk_is_refused(store: Store) -> None:
    await a_cluster(store)
    await store.write(lambda tx: tx.put_graph(1, "", b"graph", 1.0))
    await store.write(lambda tx: tx.db.run("UPDATE graphs SET data = CAST('grapi' AS " + _bytes(tx) + ")"))
    with pytest.raises(Corrupt, match="graph '' of cluster 1"):
        await store.read(lambda tx: tx.graph(1, ""))


def _bytes(tx: object) -> str:
    return "BLOB" if tx.db.dialect.name == "sqlite" else "BYTEA"  # type: ignore[attr-defined]


async def test_a_plan_for_a_cluster_holds_until_it_leaves_is_registered_anew_or_changes_its_rules(store: Store) -> None:
    await a_cluster(store, "perl", "frontier")
    planned = {cluster.name: cluster for cluster in await store.read(lambda tx: tx.clusters())}
    perl, frontier = planned["perl"], planned["frontier"]

    async def holds(*names: str) -> bool:
        chosen = {name: planned[name] for name in names}
        try:
            await store.write(lambda tx: tx.check_clusters(chosen))
        except (Conflict, NotFound):
            return False
        return True

    await store.write(lambda tx: tx.update_cluster(perl.id, state={"nodes_free": 3}, standing=Standing.DRAINING))
    assert await holds()
    assert await holds("perl", "frontier")
    planned["perl"] = await store.write(lambda tx: tx.update_cluster(perl.id, rules={"users": ["ana"]}))
    assert await holds("perl")
    await store.write(lambda tx: tx.update_cluster(perl.id, rules={}))
    assert not await holds("perl", "frontier")
    assert await holds("frontier")
    await store.write(lambda tx: tx.remove_cluster(frontier.id, 2.0))
    assert not await holds("frontier")
    await a_cluster(store, "frontier")
    assert not await holds("frontier")


async def test_a_change_of_rules_that_was_undone_refuses_no_plan(store: Store) -> None:
    await a_cluster(store, "perl")
    [perl] = await store.read(lambda tx: tx.clusters())

    def undone(tx: Tx) -> None:
        tx.update_cluster(perl.id, rules={"users": ["ana"]})
        with pytest.raises(Conflict):
            tx.check_clusters({"perl": perl})
        raise Invalid("on purpose")

    await store.write(lambda tx: tx.check_clusters({"perl": perl}))
    with pytest.raises(Invalid):
        await store.write(undone)
    await store.write(lambda tx: tx.check_clusters({"perl": perl}))

"""Queries on clusters and their graphs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping

from rainbow_sched.model.cluster import Cluster
from rainbow_sched.model.errors import AlreadyExists, Conflict, NotFound
from rainbow_sched.store.tables.rows import cluster_of
from rainbow_sched.store.tables.table import CLUSTERS, Table, checked, to_json

_CHANGEABLE = frozenset(
    {"standing", "manager", "seen_at", "state", "state_at", "marks", "used", "rules", "record", "drain_reason"}
    | {"node_rules", "wrong_nodes"}
)


class ClusterTable(Table):
    """The cluster queries of `base.Tx`."""

    def add_cluster(self, name: str, at: float) -> Cluster:
        if self.cluster_id(name) is not None:
            raise AlreadyExists(f"a cluster named {name!r} is registered already; choose another name or remove it")
        id = self.db.allocate("cluster")
        self.db.cache.pop(CLUSTERS, None)
        self.db.change("add_cluster", id=id, name=name, at=at)
        return Cluster(id=id, name=name, registered_at=at)

    def cluster(self, name: str) -> Cluster | None:
        row = self.db.row("cluster", name=name)
        return None if row is None else cluster_of(row)

    def cluster_by_id(self, id: int) -> Cluster | None:
        row = self.db.row("cluster_by_id", id=id)
        return None if row is None else cluster_of(row)

    def clusters(self) -> list[Cluster]:
        return sorted((cluster_of(row) for row in self.db.rows("clusters")), key=lambda c: c.name)

    def update_cluster(self, id: int, **changes: object) -> Cluster:
        if unknown := changes.keys() - _CHANGEABLE:
            raise TypeError(f"a cluster's {', '.join(sorted(unknown))} cannot be changed")
        old = self.cluster_by_id(id)
        if old is None:
            raise NotFound(f"there is no cluster with the id {id}")
        if "rules" in changes:
            self.db.cache.pop(CLUSTERS, None)
        new = dataclasses.replace(old, **changes, version=old.version + 1)  # type: ignore[arg-type]  # names checked above
        self.db.change(
            "update_cluster",
            id=id,
            standing=new.standing.value,
            manager=new.manager,
            seen_at=new.seen_at,
            state=to_json(new.state),
            state_at=new.state_at,
            marks=to_json(new.marks),
            used=to_json(new.used),
            rules=to_json(new.rules),
            record=to_json(new.record),
            drain_reason=new.drain_reason,
            node_rules=None if new.node_rules is None else to_json(new.node_rules.to_json()),
            wrong_nodes=new.wrong_nodes,
        )
        return new

    def check_clusters(self, planned_for: Mapping[str, Cluster]) -> None:
        if not planned_for:
            return
        live = self.live_clusters(planned_for)
        for name, cluster in planned_for.items():
            if live[name] != (cluster.id, cluster.rules):
                raise Conflict(f"cluster {name!r} was registered again, or its rules have changed; decide again")

    def remove_cluster(self, id: int, at: float) -> None:
        if not self.db.change("remove_cluster", id=id, at=at):
            raise NotFound(f"there is no live cluster with the id {id}")
        self.db.change("drop_graphs", cluster=id)
        self.db.cache.pop(CLUSTERS, None)

    def put_graph(self, cluster_id: int, subsystem: str, data: bytes, at: float) -> None:
        digest = hashlib.sha256(data).digest()
        self.db.change("put_graph", cluster=cluster_id, subsystem=subsystem, digest=digest, data=data, at=at)

    def graph(self, cluster_id: int, subsystem: str) -> bytes | None:
        row = self.db.row("graph", cluster=cluster_id, subsystem=subsystem)
        if row is None:
            return None
        name, digest, data = row
        return checked(digest, data, f"graph {name!r} of cluster {cluster_id}")

    def graphs(self, cluster_id: int) -> dict[str, bytes]:
        return {
            name: checked(digest, data, f"graph {name!r} of cluster {cluster_id}")
            for name, digest, data in self.db.rows("graphs", cluster=cluster_id)
        }

    def subsystems(self, cluster_id: int) -> list[str]:
        return sorted(name for (name,) in self.db.rows("subsystems", cluster=cluster_id))

    def drop_graph(self, cluster_id: int, subsystem: str) -> bool:
        return self.db.change("drop_graph", cluster=cluster_id, subsystem=subsystem) > 0

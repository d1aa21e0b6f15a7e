"""Queries on clusters and their graphs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.cluster import Cluster, Standing
from rainbow_sched.model.errors import AlreadyExists, Conflict, NotFound
from rainbow_sched.store.tables.rows import MAPPING, Codec, RowFormat, choice
from rainbow_sched.store.tables.table import KNOWN_CLUSTERS, Table, checked, to_json

CLUSTERS = RowFormat(
    Cluster,
    standing=choice(Standing),
    state=MAPPING,
    marks=MAPPING,
    used=MAPPING,
    rules=MAPPING,
    record=MAPPING,
    node_rules=Codec(lambda text: NodeRules.of(json.loads(text)), lambda rules: to_json(rules.to_json())),
)
_CHANGES = CLUSTERS.without("id", "name", "registered_at", "version")


class ClusterTable(Table):
    """The cluster queries of `base.Tx`."""

    def add_cluster(self, name: str, at: float) -> Cluster:
        if self.cluster_id(name) is not None:
            raise AlreadyExists(f"a cluster named {name!r} is registered already; choose another name or remove it")
        id = self.db.allocate("cluster")
        self.db.cache.pop(KNOWN_CLUSTERS, None)
        self.db.change("add_cluster", id=id, name=name, at=at)
        return Cluster(id=id, name=name, registered_at=at)

    def cluster(self, name: str) -> Cluster | None:
        return CLUSTERS.one(self.db.rows("cluster", name=name))

    def cluster_by_id(self, id: int) -> Cluster | None:
        """Return a cluster, live or removed."""
        return CLUSTERS.one(self.db.rows("cluster_by_id", id=id))

    def clusters(self) -> list[Cluster]:
        return sorted(CLUSTERS.all(self.db.rows("clusters")), key=lambda c: c.name)

    def update_cluster(self, id: int, **changes: object) -> Cluster:
        if unknown := changes.keys() - _CHANGES.columns:
            raise TypeError(f"a cluster's {', '.join(sorted(unknown))} cannot be changed")
        old = self.cluster_by_id(id)
        if old is None:
            raise NotFound(f"there is no cluster with the id {id}")
        if "rules" in changes:
            self.db.cache.pop(KNOWN_CLUSTERS, None)
        new = dataclasses.replace(old, **changes, version=old.version + 1)  # type: ignore[arg-type]  # names checked above
        self.db.change("update_cluster", id=id, **_CHANGES.dump(new))
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
        self.db.cache.pop(KNOWN_CLUSTERS, None)

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

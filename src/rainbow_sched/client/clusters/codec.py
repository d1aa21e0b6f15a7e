"""Convert between the messages of `rainbow.v2.Clusters` and `Agents` and the client's values."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from rainbow_sched.client.clusters.views import (
    ClusterInfo,
    FindingInfo,
    OfferInfo,
    ReportInfo,
    ResourceTotal,
    RestoreInfo,
)
from rainbow_sched.client.views import from_message, json_object
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2

CHUNK_BYTES = 1 << 20
COMPRESS_ABOVE_BYTES = 1 << 20


def cluster(message: clusters_pb2.Cluster) -> ClusterInfo:
    return from_message(
        ClusterInfo,
        message,
        state=json_object,
        record=json_object,
        rules=json_object,
        node_rules=json_object,
        totals=lambda totals: tuple(ResourceTotal(t.type, t.unit, t.vertices, t.all, t.free) for t in totals),
        subsystems=tuple,
        tree=tuple,
    )


def restore(message: clusters_pb2.Restore) -> RestoreInfo:
    return from_message(
        RestoreInfo,
        message,
        counts=dict,
        clusters=lambda rows: tuple(ReportInfo(row.name, row.state, row.why) for row in rows),
        findings=lambda rows: tuple(from_message(FindingInfo, row) for row in rows),
    )


def offer(message: agents_pb2.Offer) -> OfferInfo:
    return OfferInfo(
        job=message.attempt.job,
        n=message.attempt.n,
        token=message.attempt.token,
        name=message.name,
        owner=message.owner,
        spec=message.spec,
        terms=json_object(message.terms),
        lease=message.lease,
        priority=message.priority,
        array_index=message.array_index if message.is_array else None,
    )


def graph_chunks(
    name: str, data: bytes, *, subsystem: str = "", manager: str = ""
) -> Iterator[clusters_pb2.GraphUpload]:
    """Yield a header, then the graph in chunks of 1 MiB; a large graph is compressed."""
    sent = gzip.compress(data, compresslevel=5, mtime=0) if len(data) > COMPRESS_ABOVE_BYTES else data
    header = clusters_pb2.GraphHeader(cluster=name, subsystem=subsystem, manager=manager, size=len(sent))
    yield clusters_pb2.GraphUpload(header=header)
    for start in range(0, len(sent), CHUNK_BYTES):
        yield clusters_pb2.GraphUpload(data=sent[start : start + CHUNK_BYTES])

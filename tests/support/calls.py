"""Calls to a real server by rainbow.v2 stubs, short enough to read in a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.pb.v2 import agents_pb2_grpc, clusters_pb2, clusters_pb2_grpc, jobs_pb2, jobs_pb2_grpc
from tests.support.service import a_request

PIECE = 1024 * 1024


def bearer(token: str) -> list[tuple[str, str]]:
    """The metadata that names a caller."""
    return [("authorization", f"Bearer {token}")]


def upload(cluster: str, text: bytes, subsystem: str = "", manager: str = "") -> Iterator[clusters_pb2.GraphUpload]:
    """A graph in pieces."""
    header = clusters_pb2.GraphHeader(cluster=cluster, subsystem=subsystem, manager=manager, size=len(text))
    yield clusters_pb2.GraphUpload(header=header)
    for start in range(0, len(text), PIECE):
        yield clusters_pb2.GraphUpload(data=text[start : start + PIECE])


@dataclass
class Calls:
    """All stubs of one channel, with one token."""

    channel: grpc.Channel
    token: str

    def __post_init__(self) -> None:
        self.jobs = jobs_pb2_grpc.JobsStub(self.channel)
        self.clusters = clusters_pb2_grpc.ClustersStub(self.channel)
        self.agents = agents_pb2_grpc.AgentsStub(self.channel)

    @property
    def who(self) -> list[tuple[str, str]]:
        """Metadata for a call."""
        return bearer(self.token)

    def register(self, name: str, text: bytes, manager: str = "") -> clusters_pb2.RegisterResponse:
        """Register a cluster."""
        answer: clusters_pb2.RegisterResponse = self.clusters.Register(
            upload(name, text, manager=manager), metadata=self.who
        )
        return answer

    def submit(
        self, *, token: str = "", name: str = "job", timeout: float = 30, **shape: int
    ) -> jobs_pb2.SubmitResponse:
        """Submit nodes with cores."""
        request = jobs_pb2.SubmitRequest(
            name=name, spec=jobs_pb2.Spec(canonical=to_json(a_request(**shape))), client_token=token
        )
        answer: jobs_pb2.SubmitResponse = self.jobs.Submit(request, metadata=self.who, timeout=timeout)
        return answer

    def listed(self, limit: int = 1000) -> list[jobs_pb2.Job]:
        """Every job there is, newest first."""
        found: list[jobs_pb2.Job] = []
        before = 0
        while True:
            request = jobs_pb2.ListJobsRequest(limit=limit, before=before)
            page = self.jobs.List(request, metadata=self.who, timeout=30)
            found.extend(page.jobs)
            before = page.next
            if not before:
                return found

    def state(self, cluster: str, **values: object) -> None:
        """Report state."""
        request = clusters_pb2.UpdateStateRequest(cluster=cluster, values=json.dumps(values))
        self.clusters.UpdateState(request, metadata=self.who, timeout=30)

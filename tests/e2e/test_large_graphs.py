"""A graph of ten thousand nodes and a million vertices registers, and others are answered meanwhile."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from rainbow_sched.pb.v2.jobs_pb2 import SubmitResponse
from tests.support.calls import Calls
from tests.support.server_process import ServerProcess

pytestmark = pytest.mark.timeout(300)


def million(nodes: int = 10_000, cores: int = 96, gpus: int = 4) -> bytes:
    """JGF text, nodes as a list, made without building it in memory twice."""
    vertices, edges = ['{"id":"0","metadata":{"type":"cluster","name":"c0"}}'], []
    next_id = 1
    for node in range(nodes):
        node_id = next_id
        vertices.append(f'{{"id":"{node_id}","metadata":{{"type":"node","name":"n{node}"}}}}')
        edges.append(f'{{"source":"0","target":"{node_id}","relation":"contains"}}')
        next_id += 1
        for kind, count in (("socket", 2), ("core", cores), ("gpu", gpus)):
            for i in range(count):
                vertices.append(f'{{"id":"{next_id}","metadata":{{"type":"{kind}","name":"{kind}{i}"}}}}')
                edges.append(f'{{"source":"{node_id}","target":"{next_id}","relation":"contains"}}')
                next_id += 1
    return f'{{"graph":{{"nodes":[{",".join(vertices)}],"edges":[{",".join(edges)}]}}}}'.encode()


def patiently(submit: Callable[[], SubmitResponse]) -> SubmitResponse:
    """Retry a submit that a busy server rejects, as every client does."""
    for _ in range(60):
        try:
            return submit()
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:  # type: ignore[attr-defined]  # it is a call, too
                raise
            time.sleep(0.5)
    return submit()


def test_a_million_vertices_register_and_health_answers_meanwhile(server: ServerProcess) -> None:
    text = gzip.compress(million(), compresslevel=1)
    worst, done = [0.0], threading.Event()

    def ask() -> None:
        with server.channel() as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while not done.is_set():
                begun = time.monotonic()
                stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
                worst[0] = max(worst[0], time.monotonic() - begun)
                done.wait(0.05)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        with server.channel() as channel:
            calls = Calls(channel, server.admin_token)
            begun = time.monotonic()
            assert calls.register("huge", text).secret
            took = time.monotonic() - begun
            fits = patiently(lambda: calls.submit(nodes=500, cores=96))
            assert (fits.state, fits.cluster) == ("bound", "huge")
    finally:
        done.set()
        asking.join()
    print(f"registered in {took:.1f} s; the slowest health answer meanwhile took {worst[0]:.2f} s")
    assert worst[0] < 30
    server.kill()
    server.start(timeout=120)
    assert "huge" in server.run("clusters").stdout

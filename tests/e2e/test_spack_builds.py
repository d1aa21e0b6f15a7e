"""Real Spack builds on a hundred described clusters: the known answer for every job, over gRPC, every time.

Runs when the data set lies beside the repository (`../shared/data/spack-builds`).
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
from pathlib import Path

import pytest
import yaml

from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc, rainbow_pb2, rainbow_pb2_grpc
from tests.support.server_process import SECRET, ServerProcess

DATA = Path(__file__).parents[2].parent / "shared/data/spack-builds"
KEYS = ("arch", "compiler", "version", "memory")
PER_FILE = int(os.environ.get("RAINBOW_BUILDS", "12"))  # builds of each file; 0: all of them

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not DATA.is_dir(), reason="optional: the data set is not beside the repository"),
]


def register_all(server: ServerProcess) -> None:
    with server.channel() as channel:
        stub = rainbow_pb2_grpc.RainbowSchedulerStub(channel)
        for folder in sorted((DATA / "clusters").iterdir()):
            nodes = (folder / "nodes.json").read_text()
            made = stub.Register(rainbow_pb2.RegisterRequest(name=folder.name, secret=SECRET, nodes=nodes))
            assert made.status == rainbow_pb2.RegisterResponse.REGISTER_SUCCESS
            for name in ("arch", "compiler", "memory"):
                text = (folder / f"{name}-subsystem.json").read_text()
                request = rainbow_pb2.RegisterRequest(name=folder.name, secret=made.secret, nodes=text, subsystem=name)
                stub.RegisterSubsystem(request)


def asked(build: dict[str, dict[str, dict[str, object]]], keys: tuple[str, ...]) -> str:
    resources = build["resources"]
    every = {
        "arch": {"name": "arch", "field": "value", "match": resources["arch"]["arch"]},
        "compiler": {"name": "compiler", "field": "value", "match": resources["compiler"]["compiler_name"]},
        "version": {"name": "compiler", "field": "value", "match": resources["compiler"]["compiler_version"]},
        "memory": {"name": "memory", "field": "value", "min": str(int(resources["memory"]["mem_max"]))},  # type: ignore[call-overload]
    }
    node = {
        "type": "node",
        "replicas": 2,
        "requires": [every[key] for key in keys],
        "with": [{"type": "core", "count": 2}],
    }
    return json.dumps({"version": 1, "resources": {"build": node}, "tasks": [{"command": ["spack", "install"]}]})


def truth(
    build: dict[str, dict[str, dict[str, object]]], keys: tuple[str, ...], features: dict[str, dict[str, object]]
) -> set[str]:
    resources = build["resources"]

    def meets(cluster: dict[str, object], key: str) -> bool:
        if key == "arch":
            return cluster["arch"] == resources["arch"]["arch"]
        if key == "compiler":
            return cluster["compiler"] == resources["compiler"]["compiler_name"]
        if key == "version":
            return str(cluster["compiler_version"]) == str(resources["compiler"]["compiler_version"])
        return int(str(cluster["memory"])) >= int(resources["memory"]["mem_max"])  # type: ignore[call-overload]

    return {f"cluster-{name}" for name, cluster in features.items() if all(meets(cluster, key) for key in keys)}


def test_every_build_gets_the_known_answer_under_every_set_of_requirements(server: ServerProcess) -> None:
    register_all(server)
    features = json.loads((DATA / "cluster-features.json").read_text())
    sets = [keys for size in range(1, 5) for keys in itertools.combinations(KEYS, size)]
    asked_in_all = 0
    with server.channel() as channel:
        graph = memory_pb2_grpc.MemoryGraphStub(channel)
        for path in sorted((DATA / "jobspecs").glob("*.yaml.gz")):
            builds = yaml.load(gzip.decompress(path.read_bytes()), Loader=yaml.CSafeLoader)
            step = max(1, len(builds) // PER_FILE) if PER_FILE else 1
            for build in builds[::step]:
                for keys in sets:
                    answer = graph.Satisfy(memory_pb2.SatisfyRequest(payload=asked(build, keys)))
                    assert set(answer.clusters) == truth(build, keys, features), (path.name, build["name"], keys)
                    asked_in_all += 1
    print(f"{asked_in_all} questions, all as known")
    assert asked_in_all > 1000


def numbers(version: object) -> list[int]:
    """A plain version as its numbers; the data has no other versions."""
    return [int(part) for part in str(version).split(".")]


def test_every_version_bound_is_met_by_versions_alone(server: ServerProcess) -> None:
    register_all(server)
    features = json.loads((DATA / "cluster-features.json").read_text())
    builds = []
    for path in sorted((DATA / "jobspecs").glob("*.yaml.gz")):
        of_file = yaml.load(gzip.decompress(path.read_bytes()), Loader=yaml.CSafeLoader)
        builds += of_file[:: max(1, len(of_file) // 25)][:25]
    asked_in_all = 0
    with server.channel() as channel:
        graph = memory_pb2_grpc.MemoryGraphStub(channel)
        for build in builds[:150]:
            bound = build["resources"]["compiler"]["compiler_version"]
            for side in ("min", "max"):
                node = {
                    "type": "node",
                    "replicas": 2,
                    "requires": [{"name": "compiler", "field": "value", side: str(bound)}],
                    "with": [{"type": "core", "count": 2}],
                }
                spec = {"version": 1, "resources": {"build": node}, "tasks": [{"command": ["spack", "install"]}]}
                answer = graph.Satisfy(memory_pb2.SatisfyRequest(payload=json.dumps(spec)))
                known = {
                    f"cluster-{name}"
                    for name, cluster in features.items()
                    if (
                        numbers(cluster["compiler_version"]) >= numbers(bound)
                        if side == "min"
                        else numbers(cluster["compiler_version"]) <= numbers(bound)
                    )
                }
                assert set(answer.clusters) == known, (side, bound)
                asked_in_all += 1
    assert asked_in_all == 300

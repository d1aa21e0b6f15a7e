"""Real Spack builds on a hundred described clusters: every answer is the known one, every time."""

from __future__ import annotations

import gzip
import json
from itertools import chain, combinations
from pathlib import Path

import pytest
import yaml

from rainbow_sched.graphs.formats.reader import read, read_subsystem
from rainbow_sched.graphs.memory import MemoryBackend
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.request import Equals, Requirement, Within
from tests.support.graph_builders import a_level, a_request, slots

DATA = Path(__file__).parents[5] / "shared" / "data" / "spack-builds"
BUILDS_PER_FILE = 12
SUBSYSTEMS = ("arch", "compiler", "memory")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"SKIPPED: the data set {DATA.name} is not here")


@pytest.fixture(scope="module")
def backend() -> MemoryBackend:
    found = MemoryBackend()
    for folder in sorted((DATA / "clusters").iterdir()):
        graph = read((folder / "nodes.json").read_bytes())
        found.put(folder.name, graph)
        for name in SUBSYSTEMS:
            text = (folder / f"{name}-subsystem.json").read_bytes()
            found.put_subsystem(folder.name, read_subsystem(name, graph, text))
    return found


def rules(build):
    """Each rule as a requirement and as a question to the known features."""
    asked = build["resources"]
    arch, memory = asked["arch"]["arch"], int(asked["memory"]["mem_max"])
    compiler, version = asked["compiler"]["compiler_name"], asked["compiler"]["compiler_version"]
    return (
        (Requirement("arch", (Equals("value", arch),)), lambda known: known["arch"] == arch),
        (Requirement("compiler", (Equals("value", compiler),)), lambda known: known["compiler"] == compiler),
        (Requirement("compiler", (Equals("value", version),)), lambda known: known["compiler_version"] == version),
        (Requirement("memory", (Within("value", str(memory)),)), lambda known: int(known["memory"]) >= memory),
    )


@pytest.mark.parametrize("file", sorted(DATA.glob("jobspecs/*.gz")), ids=lambda file: file.stem)
def test_every_combination_of_rules_gives_the_known_clusters(backend, file):
    features = json.loads((DATA / "cluster-features.json").read_text())
    with gzip.open(file, "rt") as text:
        builds = yaml.load(text, Loader=yaml.CSafeLoader)[:BUILDS_PER_FILE]
    for build in builds:
        every = rules(build)
        for chosen in chain.from_iterable(combinations(every, count) for count in range(len(every) + 1)):
            required = tuple(requirement for requirement, _ in chosen)
            found = backend.match(prepare(a_request(slots(2, a_level("core", 2), requires=required))))
            known = {f"cluster-{name}" for name, has in features.items() if all(holds(has) for _, holds in chosen)}
            assert set(found.ever) == set(found.now) == known

"""What was matched is where it runs: from a jobspec with requirements to the nodes that a real Slurm gave."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rainbow_sched.discovery.slurm import SHOW_NODES, parse_nodes, slurm_graph
from rainbow_sched.model.hostlist import expand
from tests.contract.slurm.test_fleet import Fleet, active
from tests.support.server_process import a_server_process
from tests.support.slurm import SlurmCluster

NVME = "[{name: io, field: kind, match: nvme}]"
FAST = "[{name: clock, field: mhz, min: 1500}]"
WHERE = 'command: ["sh", "-c", "echo $SLURM_JOB_NODELIST"]'


@pytest.fixture(scope="module")
def fleet(rich: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The rich cluster (a1 to a3, and g1 and g2 with two gpus each) behind a server."""
    folder = tmp_path_factory.mktemp("nodes")
    with a_server_process(folder) as server:
        made = Fleet(server, folder)
        made.clusters = {"rich": rich}
        try:
            made.start_agent("rich")
            made.until(lambda: "rich" in active(made), "the registration")
            yield made
        finally:
            made.stop()


def hang(fleet: Fleet, subsystem: str, on: list[str], **fields: object) -> None:
    vertex = {"type": subsystem, "name": subsystem, "on": on, "metadata": fields}
    file = fleet.folder / f"{subsystem}.json"
    file.write_text(json.dumps({"rainbow": "subsystem/1", "name": subsystem, "with": [vertex]}))
    words = ("register", "subsystem", "--cluster", "rich", "--subsystem", subsystem, "--graph", str(file))
    fleet.server.run(*words)


def a_jobspec(folder: Path, *resources: str) -> str:
    file = folder / f"{abs(hash(resources))}.yaml"
    named = ", ".join(f"r{number}: {one}" for number, one in enumerate(resources))
    file.write_text(f"version: 1\nresources: {{{named}}}\ntasks: [{{{WHERE}}}]\n")
    return str(file)


def ran_on(fleet: Fleet, id: str) -> list[str]:
    """Where the job itself says that it ran, which is what the server shows."""
    fleet.server.run("wait", id, "--timeout", "60s", timeout=70)
    said = expand(fleet.server.run("logs", id).stdout.strip())
    assert expand(str(fleet.job(id).get("hosts", ""))) == said
    return said


@pytest.mark.timeout(240)
def test_jobs_that_require_what_one_node_has_all_run_there(fleet: Fleet, tmp_path: Path):
    hang(fleet, "io", ["a2"], kind="nvme")
    spec = a_jobspec(tmp_path, f"{{type: node, count: 1, with: [{{type: core, count: 1}}], requires: {NVME}}}")
    planned = fleet.server.run("plan", spec).stdout
    assert "Nodes of rich: runs only on a2" in planned
    ids = [fleet.submit(spec) for _ in range(8)]
    assert {tuple(ran_on(fleet, id)) for id in ids} == {("a2",)}
    assert "nodes       enforced" in fleet.server.run("clusters", "rich").stdout


@pytest.mark.timeout(240)
def test_jobs_with_a_range_run_on_the_nodes_that_lie_in_it(fleet: Fleet, tmp_path: Path):
    hang(fleet, "clock", ["a1", "g2"], mhz=2000)
    spec = a_jobspec(tmp_path, f"{{type: node, count: 2, with: [{{type: core, count: 2}}], requires: {FAST}}}")
    assert ran_on(fleet, fleet.submit(spec)) == ["a1", "g2"]


@pytest.mark.timeout(240)
def test_a_feature_that_was_registered_by_hand_counts_where_the_graph_has_it(fleet: Fleet, tmp_path: Path):
    """Slurm has avx2 on a1 to a3; what was matched is a3."""
    file = tmp_path / "features.json"
    vertex = {"type": "feature", "name": "avx2", "on": ["a3"]}
    file.write_text(json.dumps({"rainbow": "subsystem/1", "name": "features", "with": [vertex]}))
    words = ("register", "subsystem", "--cluster", "rich", "--subsystem", "features", "--graph", str(file))
    fleet.server.run(*words)
    named = "[{name: features, field: name, match: avx2}]"
    spec = a_jobspec(tmp_path, f"{{type: node, count: 1, with: [{{type: core, count: 1}}], requires: {named}}}")
    ids = [fleet.submit(spec) for _ in range(4)]
    assert {tuple(ran_on(fleet, id)) for id in ids} == {("a3",)}


@pytest.mark.timeout(240)
def test_each_group_runs_on_the_nodes_that_meet_its_own_requirements(fleet: Fleet, tmp_path: Path):
    hang(fleet, "io", ["a2"], kind="nvme")
    hang(fleet, "clock", ["a3"], mhz=2000)
    one = "{type: node, count: 1, with: [{type: core, count: %d}], requires: %s}"
    spec = Path(a_jobspec(tmp_path, one % (1, NVME), one % (3, FAST)))
    tasks = [f'{{slot: r{n}, command: ["sh", "-c", "echo r{n} $SLURMD_NODENAME"]}}' for n in (0, 1)]
    spec.write_text(f"{spec.read_text().partition('tasks:')[0]}tasks: [{', '.join(tasks)}]\n")
    planned = fleet.server.run("plan", str(spec)).stdout
    assert "a2" in planned
    assert "a3" in planned
    ids = [fleet.submit(str(spec)) for _ in range(4)]
    for id in ids:
        fleet.server.run("wait", id, "--timeout", "60s", timeout=70)
        assert sorted(fleet.server.run("logs", id).stdout.splitlines()) == ["r0 a2", "r1 a3"]
        assert sorted(expand(str(fleet.job(id)["hosts"]))) == ["a2", "a3"]


@pytest.mark.timeout(240)
def test_jobs_of_several_groups_run_once_however_often_the_agent_dies(fleet: Fleet, tmp_path: Path):
    hang(fleet, "io", ["a2"], kind="nvme")
    hang(fleet, "clock", ["a3"], mhz=2000)
    one = "{type: node, count: 1, with: [{type: core, count: %d}], requires: %s}"
    spec = Path(a_jobspec(tmp_path, one % (1, NVME), one % (2, FAST)))
    ran = tmp_path / "ran"
    say = f"echo $RAINBOW_JOB_ID $RAINBOW_TASK_RANK $SLURMD_NODENAME >> {ran}"
    spec.write_text(f"{spec.read_text().partition('tasks:')[0]}tasks: [{{command: [sh, -c, '{say}']}}]\n")
    ids = []
    for pause in (0.0, 0.2, 0.5):
        ids += [fleet.submit(str(spec)) for _ in range(2)]
        time.sleep(pause)  # dies at another point of the hand-over each time
        fleet.kill_agent("rich")
        fleet.start_agent("rich")
    for id in ids:
        fleet.server.run("wait", id, "--timeout", "90s", timeout=100)
        assert fleet.job(id)["state"] == "succeeded"
    assert sorted(ran.read_text().splitlines()) == sorted(
        f"{id} {rank} {node}" for id in ids for rank, node in enumerate(("a2", "a3"))
    )


@pytest.mark.timeout(240)
def test_a_mixed_host_is_refused_before_the_job_is_submitted(fleet: Fleet, rich: SlurmCluster, tmp_path: Path):
    graph = slurm_graph("rich", parse_nodes(rich.call(*SHOW_NODES)))
    sockets = [id for id, type in zip(graph.ids, graph.types, strict=True) if type == "socket"]
    hang(fleet, "bus", sockets[:1], speed=5)
    wanted = "[{name: bus, field: speed, match: 5}]"
    inside = f"[{{type: socket, count: 1, with: [{{type: core, count: 1}}], requires: {wanted}}}]"
    spec = a_jobspec(tmp_path, f"{{type: node, count: 1, with: {inside}}}")
    planned = fleet.server.run("plan", spec, check=False)
    assert planned.returncode == 3
    assert "cannot be told which socket to use" in " ".join(planned.stdout.split())


@pytest.mark.timeout(240)
def test_what_is_required_of_gpus_holds_for_the_node_that_is_given(fleet: Fleet, rich: SlurmCluster, tmp_path: Path):
    graph = slurm_graph("rich", parse_nodes(rich.call(*SHOW_NODES)))
    gpus = [id for id, type in zip(graph.ids, graph.types, strict=True) if type == "gpu"]
    hang(fleet, "link", gpus[-1:], speed=5)
    inside = "[{type: core, count: 1}, {type: gpu, count: 1, requires: [{name: link, field: speed, match: 5}]}]"
    spec = a_jobspec(tmp_path, f"{{type: node, count: 1, with: {inside}}}")
    assert [ran_on(fleet, fleet.submit(spec)) for _ in range(3)] == [["g2"]] * 3

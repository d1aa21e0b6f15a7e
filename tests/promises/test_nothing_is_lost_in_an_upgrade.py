"""A server and an agent of an earlier commit are upgraded while jobs run and wait: nothing is lost, nothing runs twice.

The old program is taken from the history of this repository and runs with the packages of today.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import old_program
from tests.support.fleet import Agent, Fleet, a_fleet
from tests.support.server_process import RAINBOW

pytestmark = pytest.mark.timeout(180)
OLD_RAINBOW = [sys.executable, "-c", "from rainbow.cli.main import main; main()"]  # the package's name at that commit


@pytest.fixture(scope="module")
def old_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it was."""
    return old_program.old_source(tmp_path_factory.mktemp("old"))


@pytest.fixture(params=["sqlite", "postgresql"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, old_source: Path) -> Iterator[Fleet]:
    """An old server on each of the databases."""
    db = request.getfixturevalue("postgres").new_database() if request.param == "postgresql" else ""
    with a_fleet(tmp_path / "fleet", db=db, program=["env", f"PYTHONPATH={old_source}", *OLD_RAINBOW]) as running:
        yield running


def old_agent(fleet: Fleet, old_source: Path, name: str) -> Agent:
    agent = fleet.add(name, nodes=1, cores=2, started=False)
    agent.environment = {**agent.environment, "PYTHONPATH": str(old_source)}
    agent.program = OLD_RAINBOW
    agent.start()
    return agent


def upgrade_server(fleet: Fleet, *, kill: bool) -> None:
    if kill:
        fleet.server.kill()
    else:
        assert fleet.server.stop() == 0
    fleet.server.program = tuple(RAINBOW)
    fleet.server.start()


def upgrade_agent(agent: Agent, *, kill: bool) -> None:
    if kill:
        agent.kill()
    else:
        agent.stop()
    del agent.environment["PYTHONPATH"]
    agent.program = RAINBOW
    agent.start()


def is_old(source: Path) -> bool:
    said = subprocess.run(
        [sys.executable, "-c", "import rainbow; print(rainbow.__file__)"],
        env={"PYTHONPATH": str(source)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return said.stdout.startswith(str(source))


@pytest.mark.parametrize("first", ["server", "agent", "server only"])
def test_running_and_waiting_jobs_survive_an_upgrade(
    fleet: Fleet, old_source: Path, tmp_path: Path, first: str
) -> None:
    assert is_old(old_source), "what is called old is another program"
    kill = first != "server"  # one of them is stopped, the others are killed
    gate = tmp_path / "gate"
    agent = old_agent(fleet, old_source, "east")
    running = [fleet.submit(gate=gate) for _ in range(2)]
    fleet.until_begun(*running)
    waiting = [fleet.submit() for _ in range(3)]
    again = fleet.submit(code=1, retries=2, reruns=2)
    held = fleet.submit(hold=True)
    if first == "agent":
        upgrade_agent(agent, kill=kill)
    upgrade_server(fleet, kill=kill)
    new = [fleet.submit() for _ in range(2)]
    gate.touch()
    fleet.ended(*running)
    if first == "server":
        upgrade_agent(agent, kill=kill)
    fleet.server.run("release", str(held))
    jobs = {job.id: job for job in fleet.ended(*running, *waiting, *new, held, again)}
    assert jobs.pop(again).state == "failed"
    assert {job.state for job in jobs.values()} == {"succeeded"}
    starts = fleet.tally.starts()
    assert starts.pop(again) == 3, "its owner allowed two more runs, in the words of then"
    assert starts == dict.fromkeys(jobs, 1)
    for id in jobs:
        assert fleet.output(id) == f"out {id}\n".encode()
    assert {cluster.standing for cluster in fleet.client.clusters()} == {"active"}


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_an_older_agent_takes_over_and_back(fleet: Fleet, old_source: Path, tmp_path: Path, kill: bool) -> None:
    upgrade_server(fleet, kill=kill)
    gate = tmp_path / "gate"
    agent = fleet.add("east", nodes=1, cores=2)
    over = fleet.submit()
    fleet.ended(over)
    running, waiting = [fleet.submit(gate=gate) for _ in range(2)], [fleet.submit() for _ in range(3)]
    fleet.until_begun(*running)
    agent.kill() if kill else agent.stop()
    agent.environment = {**agent.environment, "PYTHONPATH": str(old_source)}
    agent.program = OLD_RAINBOW
    agent.start()
    gate.touch()
    fleet.ended(*running, *waiting)
    upgrade_agent(agent, kill=kill)
    last = fleet.submit()
    jobs = fleet.ended(over, *running, *waiting, last)
    assert {job.state for job in jobs} == {"succeeded"}
    assert fleet.tally.starts() == dict.fromkeys([over, *running, *waiting, last], 1)

"""The wheel that `make dist` builds works with each extra in environments that have nothing else."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.server_process import ServerProcess
from tests.support.wheels import KEPT, Environment, build_wheel, copy_of_the_tree

Make = Callable[[str], Environment]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """An environment with the wheel and these extras, made once."""
    made: dict[str, Environment] = {}

    def make(extras: str) -> Environment:
        if extras not in made:
            made[extras] = Environment(tmp_path_factory.mktemp("environment")).create().install(wheel, extras)
        return made[extras]

    return make


@pytest.fixture
def server(tmp_path: Path) -> ServerProcess:
    """A folder, a port and an environment for processes; its server is not running."""
    (tmp_path / "home").mkdir()
    return ServerProcess(tmp_path)


def run(server: ServerProcess, environment: Environment, *arguments: str, code: int = 0, **extra: str) -> str:
    """Run its `rainbow`; return what it printed, errors included."""
    done = subprocess.run(
        [environment.rainbow, *arguments],
        env=server.environment() | {"RAINBOW_SERVER": server.address} | extra,
        cwd=server.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"rainbow {shlex.join(arguments)} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@contextmanager
def serving(server: ServerProcess, environment: Environment, *arguments: str) -> Iterator[None]:
    """The server of this environment while the block lasts."""
    command = [environment.rainbow, "server", "--listen", server.address, "--data-dir", str(server.folder / "data")]
    with (server.folder / "server.log").open("ab") as log:
        server.process = subprocess.Popen([*command, *arguments], env=server.environment(), stdout=log, stderr=log)
    try:
        server.wait_open()
        yield
    finally:
        server.stop()


@contextmanager
def beside_this_machine(server: ServerProcess, environment: Environment, cluster: str) -> Iterator[None]:
    """An agent of this environment that has registered this machine, while the block lasts."""
    arguments = ["agent", "--cluster", cluster, "--register", "auto", "--state-dir", str(server.folder / cluster)]
    with (server.folder / "agent.log").open("ab") as log:
        process = subprocess.Popen(
            [environment.rainbow, *arguments, *(["--run-as-root"] if os.getuid() == 0 else [])],
            env=server.environment() | {"RAINBOW_SERVER": server.address},
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.timeout(60)
def test_the_same_tree_gives_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    again = build_wheel(tmp_path / "dist", copy_of_the_tree(tmp_path / "tree"), umask=0o077)
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.timeout(180)
def test_server_agent_and_client_work_from_three_environments(server: ServerProcess, installed: Make) -> None:
    server_extra, agent, client = installed("server"), installed("agent"), installed("")
    assert client.packages() & {"numpy", "msgspec", "cryptography"} == set()
    assert "psycopg" not in agent.packages()
    with serving(server, server_extra), beside_this_machine(server, agent, "here"):
        token = {"RAINBOW_TOKEN": server.admin_token}
        # A job may be submitted before the agent has registered: it waits for the cluster.
        job = run(server, client, "submit", "-n1", "--", "echo", "from the wheel", **token).split()[-1]
        run(server, client, "wait", job, **token)
        assert run(server, client, "logs", job, **token) == "from the wheel\n"
        listed = json.loads(run(server, client, "clusters", "-o", "json", **token))["clusters"]
        assert [(one["name"], one["manager"]) for one in listed] == [("here", "local")]
        assert "here" in run(server, client, "plan", "-n1", "--", "true", **token)
        assert "succeeded on here" in run(server, client, "explain", job, **token)
        assert job in run(server, client, "jobs", "-a", **token)


@pytest.mark.timeout(60)
def test_the_cypher_extra_brings_both_graph_databases(server: ServerProcess, installed: Make) -> None:
    code = "import neo4j; from rainbow_sched.graphs.cypher.engine import Embedded; Embedded().close()"
    subprocess.run([installed("cypher").python, "-I", "-c", code], check=True, timeout=60, cwd=server.folder)


@pytest.mark.timeout(150)
def test_the_demo_runs_from_the_server_and_agent_extras(server: ServerProcess, installed: Make) -> None:
    said = run(server, installed("server,agent"), "demo")
    assert "No cluster can ever run it." in said
    assert said.count("done, once") == 2, "once in the command, once in its output"


LACKING = {
    "server": ("server", "server"),
    "demo": ("server", "demo"),
    "agent": ("agent", "agent --cluster a --register auto --run-as-root"),
    "torture": ("server", "torture"),
    "a key": ("sign", "key create"),
}


@pytest.mark.parametrize(("extra", "arguments"), LACKING.values(), ids=LACKING)
def test_a_missing_extra_is_reported_with_the_install_command(
    server: ServerProcess, installed: Make, wheel: Path, extra: str, arguments: str
) -> None:
    client = installed("")
    said = run(server, client, *arguments.split(), code=1)
    assert re.search(r" needs [\w.-]+, which is not installed; run: ", said)
    assert f"{client.python} -m pip install '{wheel}[{extra}]'\n" in said


def test_a_graph_backend_that_lacks_a_package_is_listed_with_the_command_that_installs_it(
    server: ServerProcess, installed: Make, wheel: Path
) -> None:
    client = installed("")
    listed = json.loads(run(server, client, "plugins", "-o", "json"))["plugins"]
    errors = {one["name"]: one["error"] for one in listed if one["kind"] == "graph backend"}
    command = f"{client.python} -m pip install '{wheel}[server]'"
    assert set(errors) == {"memory", "cypher"}
    for name, error in errors.items():
        assert re.fullmatch(rf"the graph backend '{name}' needs [\w.-]+, which is not installed; run: (.+)", error)
        assert error.endswith(command)


@pytest.mark.timeout(120)
def test_the_command_in_the_message_works(server: ServerProcess, wheel: Path, tmp_path: Path) -> None:
    user = Environment(tmp_path / "environment").create(with_pip=True).install_by_its_own_pip(wheel)
    said = run(server, user, "key", "create", code=1)
    command = said.split("; run: ")[1].strip()
    # As the user would; only that the packages come from a folder.
    environment = server.environment() | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(KEPT)}
    subprocess.run(["sh", "-c", command], check=True, timeout=60, env=environment, cwd=server.folder)
    run(server, user, "key", "create")

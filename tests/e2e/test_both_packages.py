"""The prototype's PyPI package and ours are installed in one environment, and both work there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.jgf import dict_jgf
from tests.support.prototype import LOCK, write_config
from tests.support.server_process import SECRET, ServerProcess
from tests.support.wheels import Environment, build_wheel

OVERLAP = """
from importlib.metadata import files
ours, theirs = ({str(file.locate()) for file in files(name)} for name in ("rainbow-sched", "rainbow-scheduler"))
print(*sorted(ours & theirs))
"""
BOTH_CLIENTS = """
import sys
from rainbow.client import RainbowClient
from rainbow_sched.client import Client

address, token, config, graph, secret = sys.argv[1:]
print(RainbowClient(host=address, config_file=config).register("keebler", secret, graph).status)
with Client(address, token=token) as client:
    print(*(cluster.name for cluster in client.clusters()))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The prototype's client with locked versions, and our wheel over it."""
    made = Environment(tmp_path_factory.mktemp("both")).create(with_pip=True)
    pip = [str(made.python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    locked = [*pip, "--require-hashes", "--only-binary", ":all:", "-r", str(LOCK)]
    subprocess.run(locked, check=True, timeout=300)
    return made.install(build_wheel(tmp_path_factory.mktemp("dist")), "server,agent")


@pytest.fixture
def server(tmp_path: Path, environment: Environment) -> Iterator[ServerProcess]:
    """A server of this environment, with the modules of both packages on PYTHONPATH."""
    (tmp_path / "home").mkdir()
    server = ServerProcess(tmp_path)
    command = [environment.rainbow, "server", "--listen", server.address, "--data-dir", str(tmp_path / "data")]
    (packages,) = environment.folder.glob("lib/python*/site-packages")
    variables = server.environment() | {"PYTHONPATH": str(packages), "RAINBOW_REGISTRATION_SECRET": SECRET}
    with (tmp_path / "server.log").open("ab") as log:
        server.process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
    try:
        server.wait_open()
        yield server
    finally:
        server.stop()


@pytest.mark.timeout(360)
def test_neither_package_overwrites_a_file_of_the_other(environment: Environment) -> None:
    shown = subprocess.run(
        [environment.python, "-c", OVERLAP], check=True, timeout=60, capture_output=True, text=True, cwd="/"
    )
    assert shown.stdout.split() == []


@pytest.mark.timeout(360)
def test_one_program_uses_both_clients(environment: Environment, server: ServerProcess, tmp_path: Path) -> None:
    graph = tmp_path / "graph.json"
    graph.write_text(json.dumps(dict_jgf(nodes=1, cores=1)))
    config = write_config(tmp_path, server, {"name": "keebler"}, [])
    (tmp_path / "program.py").write_text(BOTH_CLIENTS)
    arguments = (server.address, server.admin_token, str(config), str(graph), SECRET)
    done = subprocess.run(
        [environment.python, tmp_path / "program.py", *arguments],
        timeout=60,
        capture_output=True,
        text=True,
        env=os.environ | server.environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "keebler"]

"""The first Rainbow's Go client, when RAINBOW_GO_CLIENT names one: its whole round against this server.

Its `submit` asks for matches at localhost:50051 whatever it is told, so that port must be free.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.jgf import dict_jgf, subsystem_jgf
from tests.support.server_process import SECRET, ServerProcess

CLIENT = os.environ.get("RAINBOW_GO_CLIENT", "")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.skipif(not CLIENT, reason="optional: RAINBOW_GO_CLIENT names no Go client")
def test_its_whole_round_works(tmp_path: Path) -> None:
    if not is_free(50051):
        pytest.skip("optional: port 50051 is taken")
    server = ServerProcess(tmp_path, port=50051)
    server.start()
    nodes, io, state = tmp_path / "nodes.json", tmp_path / "io.json", tmp_path / "state.json"
    nodes.write_text(json.dumps(dict_jgf(nodes=3, cores=12)))
    io.write_text(json.dumps(subsystem_jgf("io", ["2"], {"type": "shm"})))
    state.write_text(json.dumps({"nodes_free": 3}))
    config = ("--config-path", str(tmp_path / "rainbow-config.yaml"))

    def go(*arguments: str) -> str:
        done = subprocess.run(
            [CLIENT, *arguments, *config], capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    try:
        go("config", "init")
        named = ("--cluster-name", "keebler", "--nodes-json", str(nodes), "--secret", SECRET)
        assert "REGISTER_SUCCESS" in go("register", "cluster", *named, "--save")
        assert "REGISTER_SUCCESS" in go("register", "subsystem", "--subsystem", "io", "--nodes-json", str(io))
        assert "UPDATE_STATE_SUCCESS" in go("update", "state", "--state-file", str(state))
        assert "SUBMIT_SUCCESS" in go("submit", "--nodes", "2", "--tasks", "24", "--command", "echo hello")
        assert "Received 1 jobs" in go("receive")
    finally:
        server.stop()

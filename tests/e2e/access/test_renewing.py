"""A real agent renews its secret repeatedly while it is killed again and again."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.server_process import RAINBOW, ServerProcess

pytestmark = pytest.mark.timeout(120)
KILLS = 6


def test_an_agent_that_is_killed_while_it_renews_its_secret_gets_in_again_each_time(server: ServerProcess):
    folder = server.folder / "agent"
    command = [*RAINBOW, "agent", "--cluster", "here", "--run-as-root", "--state-dir", str(folder)]
    environment = server.environment() | {"RAINBOW_SERVER": server.address}
    log = server.folder / "agent.log"

    def start(*words: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as file:
            return subprocess.Popen([*command, *words], env=environment, stdout=file, stderr=file)

    assert start("--register", "auto", "--once").wait(60) == 0, log.read_text()
    secret = folder / "secret"
    seen = {secret.read_text()}
    chance = random.Random(7)
    for _ in range(KILLS):
        process = start("--renew-secret", "0.01")
        before = secret.read_text()
        wait_until(lambda before=before: secret.read_text() != before, process, log)
        time.sleep(chance.random() * 0.1)
        process.kill()
        process.wait()
        assert "refused" not in log.read_text()
        seen.add(secret.read_text())
    assert len(seen) == KILLS + 1
    assert start("--once").wait(60) == 0, log.read_text()
    lines = server.run("audit", "--verb", "secret.renewed", "-o", "jsonl").stdout.splitlines()
    assert len(lines) >= KILLS
    assert server.run("audit", "--verify").returncode == 0


def wait_until(there: object, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 30
    while not there():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.005)

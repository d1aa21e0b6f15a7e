"""Signed jobs from the command line to a site that requires them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.server_process import RAINBOW, ServerProcess

pytestmark = pytest.mark.timeout(120)


def an_agent(server: ServerProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the agent of the cluster `here` until it is idle."""
    environment = server.environment() | {"RAINBOW_SERVER": server.address}
    command = [*RAINBOW, "agent", "--cluster", "here", "--register", "auto", "--once", "--run-as-root", *words]
    return subprocess.run(
        [*command, "--state-dir", str(server.folder / "agent")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_a_site_that_asks_for_signatures_runs_what_is_signed_and_hands_back_the_rest(server: ServerProcess):
    signers = server.folder / "signers"
    key = Path(server.run("key", "create").stdout.strip())
    assert key.stat().st_mode & 0o777 == 0o600
    assert server.run("key", "create", check=False).returncode != 0, "a key is never overwritten"
    signers.write_text(server.run("key", "show").stdout)
    assert signers.read_text().startswith("admin ssh-ed25519 ")
    an_agent(server, "--allowed-signers", str(signers))
    signed, plain = (server.run("submit", *words, "--", "echo", "hi").stdout.strip() for words in (["--sign"], []))
    said = an_agent(server, "--allowed-signers", str(signers)).stderr
    assert server.run("logs", signed).stdout == "hi\n"
    assert f"rb-{plain}-1: rejected: the job is not signed" in said
    assert "submit it with --sign" in server.run("explain", plain, check=False).stdout
    script = server.folder / "job.sh"
    script.write_text("#!/bin/sh\n#SBATCH -n 2\necho from a script\n")
    signed = server.run("submit", "--sign", "-M", "here", str(script)).stdout.strip()
    members = server.run("submit", "--sign", "--array", "1-2", "--", "printenv", "RAINBOW_ARRAY_INDEX").stdout.strip()
    an_agent(server, "--allowed-signers", str(signers))
    assert "from a script" in server.run("logs", signed).stdout
    assert [server.run("logs", str(id)).stdout for id in range(*map(int, members.split("-")))] == ["1\n"]


def test_a_key_that_others_can_read_or_that_is_none_is_refused(server: ServerProcess):
    assert "rainbow key create" in server.run("submit", "--sign", "--", "true", check=False).stderr
    key = server.folder / "key"
    key.write_text("no key")
    key.chmod(0o644)
    assert "chmod 600" in server.run("submit", "--sign", "--key", str(key), "--", "true", check=False).stderr
    key.chmod(0o600)
    assert "OpenSSH" in server.run("submit", "--sign", "--key", str(key), "--", "true", check=False).stderr

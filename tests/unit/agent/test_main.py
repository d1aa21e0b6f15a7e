"""The command: what it refuses before it starts, and the unit it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rainbow.agent.contact import ContactFile
from rainbow.agent.main import agent
from rainbow.model.errors import Denied, Invalid, NotFound, Unauthenticated


def refused(*words: str, **environment: str) -> BaseException:
    given = {"HOME": "/nonexistent", "RAINBOW_CONFIG": None, "RAINBOW_CLUSTER_SECRET": None, **environment}
    result = CliRunner().invoke(agent, words, env=given)
    assert result.exception is not None
    return result.exception


def test_install_prints_a_unit_with_the_options_it_was_given():
    result = CliRunner().invoke(agent, ["install", "--cluster", "here", "--max-jobs", "5", "--accept", "cores < 3"])
    assert result.exit_code == 0
    assert '"agent" "--cluster" "here" "--max-jobs" "5" "--accept" "cores < 3"\n' in result.output


def test_install_writes_the_unit_where_systemd_looks_for_it(tmp_path: Path):
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    result = CliRunner().invoke(agent, ["install", "--cluster", "here", "--write"], env=home)
    assert "systemctl --user enable --now rainbow-agent-here.service" in result.output
    assert "[Service]" in (tmp_path / "systemd" / "user" / "rainbow-agent-here.service").read_text()


def test_an_agent_needs_a_cluster_and_a_credential(tmp_path: Path):
    assert isinstance(refused("--run-as-root"), Invalid)
    state = ("--run-as-root", "--state-dir", str(tmp_path / "state"))
    assert isinstance(refused("--cluster", "here", *state), Unauthenticated)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--accept", "cores <"), Invalid),
        (("--backend", "slurmm"), NotFound),
        (("-O", "nothing"), Invalid),
        (("--max-jobs", "0"), Invalid),
        (("--graph", "/no/such/file"), NotFound),
    ],
)
def test_a_wrong_option_is_said_before_anything_is_sent(tmp_path: Path, words: tuple[str, ...], error: type):
    state = ("--cluster", "here", "--run-as-root", "--state-dir", str(tmp_path / "state"))
    assert isinstance(refused(*state, *words, RAINBOW_AGENT_SECRET="x"), error)


def test_root_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert isinstance(refused("--cluster", "here"), Denied)


def test_the_last_contact_is_known_after_a_restart_but_not_after_a_reboot(tmp_path: Path):
    path = tmp_path / "contact"
    assert ContactFile(path).read() is None
    ContactFile(path).write(12.5)
    assert ContactFile(path).read() == 12.5
    path.write_text('["another boot", 12.5]')
    assert ContactFile(path).read() is None
    path.write_text("damaged")
    assert ContactFile(path).read() is None

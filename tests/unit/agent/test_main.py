"""The command: what it refuses before it starts, and the unit it prints."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from click.testing import CliRunner

from rainbow_sched.agent.main import agent
from rainbow_sched.agent.options import opened
from rainbow_sched.agent.runtime.loop import ContactFile
from rainbow_sched.model.errors import Denied, Invalid, NotFound, Unauthenticated, Unavailable


def refused(*words: str, **environment: str) -> BaseException:
    given = {"HOME": "/nonexistent", "RAINBOW_CONFIG": None, "RAINBOW_CLUSTER_SECRET": None, **environment}
    result = CliRunner().invoke(agent, words, env=given)
    assert result.exception is not None
    return result.exception


@pytest.mark.parametrize(("words", "meant"), [([], "auto"), (["auto"], "auto"), (["here.json"], "here.json")])
def test_register_takes_what_follows_only_if_that_is_no_option(words: list[str], meant: str):
    given = agent.make_context("agent", ["--register", *words, "--state-dir", "there"]).params
    assert (given["register"], str(given["state_dir"])) == (meant, "there")


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
        (("--rediscover", "-1"), Invalid),
        (("--accept", "nods < 3"), Invalid),
        (("-O", "cgrop=x"), Invalid),
        (("--backend", "slurm", "-O", "conf=/no/such/slurm.conf"), Invalid),
        (("--backend", "slurm", "-O", "interval=often"), Invalid),
        (("--graph", "/no/such/file"), NotFound),
    ],
)
def test_a_wrong_option_is_said_before_anything_is_sent(tmp_path: Path, words: tuple[str, ...], error: type):
    state = ("--cluster", "here", "--run-as-root", "--state-dir", str(tmp_path / "state"))
    assert isinstance(refused(*state, *words, RAINBOW_AGENT_SECRET="x"), error)


def test_no_cluster_is_registered_for_a_backend_that_there_is_not(tmp_path: Path):
    state = ("--cluster", "here", "--run-as-root", "--state-dir", str(tmp_path / "state"))
    nobody = ("--server", "127.0.0.1:1")  # asking it would fail in another way
    assert isinstance(refused(*state, *nobody, "--register", "auto", "--backend", "slurmm"), NotFound)


def test_what_is_wrong_is_said_by_name(tmp_path: Path):
    state = ("--cluster", "here", "--run-as-root")
    graph = tmp_path / "graph.json"
    graph.write_text("{")
    said = str(refused(*state, "--state-dir", str(tmp_path / "s"), "--graph", str(graph), RAINBOW_AGENT_SECRET="x"))
    assert str(graph) in said
    said = str(refused(*state, "--state-dir", str(graph), RAINBOW_AGENT_SECRET="x"))
    assert "--state-dir" in said
    assert "did you mean 'nodes'" in str(
        refused(*state, "--state-dir", str(tmp_path / "s"), "--accept", "nods < 3", RAINBOW_AGENT_SECRET="x")
    )


def test_a_full_disk_is_no_wrong_option_and_says_what_to_do(tmp_path: Path):
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Unavailable, match="free some space"):
        opened(full, tmp_path)


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

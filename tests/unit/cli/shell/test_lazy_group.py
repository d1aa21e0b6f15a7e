"""Command groups: help, unknown commands and misplaced options."""

import pytest

from rainbow_sched.cli.main import run


@pytest.mark.parametrize("words", [(), ("token",), ("register",)])
def test_a_group_without_a_command_shows_its_help_as_it_is(words, capsys):
    assert run(words) == 2
    told = capsys.readouterr().err
    assert told.startswith("Usage: rainbow")
    assert told.count("\n") > 8


def test_an_unknown_command_is_refused_with_suggestions(capsys):
    assert run(["register", "west", "--graph", "west.json"]) == 2
    assert "there is no command 'west'; use cluster, subsystem" in capsys.readouterr().err
    assert run(["token", "crate"]) == 2
    assert "did you mean create?" in capsys.readouterr().err


def test_an_invalid_number_is_refused(capsys):
    assert run(["submit", "-N", "two", "--", "true"]) == 2
    assert "'two' is not a valid whole number" in capsys.readouterr().err


def test_an_option_before_the_command_is_refused_with_the_right_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--server", "far:50051", "jobs"]) == 2
    assert "put --server after the command: rainbow COMMAND --server; see rainbow --help" in capsys.readouterr().err

"""The process around a local job: what it says of a job that could not begin."""

import subprocess

import pytest

from rainbow_sched.agent.backends.local.wrapper import not_started


@pytest.mark.parametrize(
    ("command", "cwd", "said"),
    [
        ("true", "/no/such/folder", "cannot use the working directory '/no/such/folder': No such file or directory"),
        ("true", "/etc/passwd", "cannot use the working directory '/etc/passwd': Not a directory"),
        ("/no/such/command", "/", "cannot start '/no/such/command': No such file or directory"),
        ("/etc/passwd", "/", "cannot start '/etc/passwd': Permission denied"),
    ],
)
def test_what_could_not_be_started_says_whether_the_command_or_its_folder_was_wrong(command, cwd, said):
    with pytest.raises(OSError) as failed:
        subprocess.Popen([command], cwd=cwd)
    assert not_started({"tasks": [[command]], "cwd": cwd}, failed.value) == said

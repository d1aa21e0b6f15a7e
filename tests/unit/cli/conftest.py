"""A fake server, and the program run against it in this process."""

import os
import time

import pytest

from rainbow_sched.cli.main import run
from tests.support.fake_server import FakeServer, running


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch, tmp_path):
    """Isolate the tests from the user's settings."""
    for name in list(os.environ):
        if name.startswith("RAINBOW_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(monkeypatch):
    with running(FakeServer()) as fake:
        monkeypatch.setenv("RAINBOW_SERVER", fake.address)
        monkeypatch.setenv("RAINBOW_TOKEN", "a-token")
        yield fake


class Ended:
    def __init__(self, code, captured):
        self.code, self.out, self.err = code, captured.out, captured.err


@pytest.fixture
def rainbow(capfd):
    """Run one command line; return its exit code, stdout and stderr."""

    def command(*args):
        capfd.readouterr()
        return Ended(run(args), capfd.readouterr())

    return command

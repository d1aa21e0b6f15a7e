"""The program starts fast because it imports little, and its table of commands is true."""

import subprocess
import sys

import click
import pytest

from rainbow_sched.cli.main import SECTIONS, cli, run
from rainbow_sched.installation import install_command

HEAVY = ("grpc", "google.protobuf", "yaml", "numpy", "asyncio", "msgspec", "sqlite3", "psycopg", "platformdirs")
OTHERS = {"agent", "demo"}  # written elsewhere: their help is their own
NAMES = [name for section in SECTIONS.values() for name in section]


def imported_by(*args):
    code = (
        "import sys; from rainbow_sched.cli.main import run; run(sys.argv[1:]);"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, timeout=60)
    return done.stderr.split()


def test_the_help_imports_nothing_heavy():
    assert imported_by("--help") == []


@pytest.mark.parametrize("name", ["jobs", "submit", "wait", "config"])
def test_the_help_of_a_command_imports_nothing_heavy_either(name):
    assert imported_by(name, "--help") == []


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_table_is_a_command(name):
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, click.Command)
    assert command.name == name


def every_command(command, path=()):
    yield path, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            if name not in OTHERS:
                yield from every_command(command.get_command(ctx, name), (*path, name))


@pytest.mark.parametrize(("path", "command"), list(every_command(cli)), ids=str)
def test_every_command_and_option_teaches(path, command):
    assert command.help
    assert "Example" in command.epilog
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{path}: {param.opts} has no help"


def test_a_command_whose_packages_are_missing_says_what_to_install(monkeypatch, capsys):
    from rainbow_sched.cli.main import run

    monkeypatch.setitem(sys.modules, "rainbow_sched.server.main", None)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(ModuleNotFoundError):  # ours missing is a defect, and stays one
        run(["server"])
    monkeypatch.delitem(sys.modules, "rainbow_sched.server.main")
    monkeypatch.setitem(sys.modules, "grpc_health.v1", None)
    assert run(["server", "--data-dir", "x"]) == 1
    said = capsys.readouterr().err
    assert "this command needs grpc_health.v1, which is not installed" in said
    assert f"; run: {install_command('server')}" in said


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("{}\nscheduler: {counts: {bidders: 0}}", "scheduler.counts.bidders is a whole number from 1 to 64, not 0"),
        ("{}\nscheduler: {counts: {biders: 1}}", "scheduler.counts has no 'biders'; it has bidders, breaker"),
        ("{name: no-such-thing}", "there is no graph backend 'no-such-thing'; there are cypher, memory"),
        ("{name: memory, options: {host: 'x:1', path: y}}", "the graph backend 'memory' does not take these options"),
    ],
)
def test_the_server_takes_its_settings_from_the_config_and_refuses_what_is_none(tmp_path, capsys, config, said):
    file = tmp_path / "rainbow-config.yaml"
    file.write_text(f"graphdatabase: {config}\n")
    assert run(["server", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", "--config", str(file)]) != 0
    assert said in capsys.readouterr().err


def test_an_empty_secret_is_never_taken_for_one(tmp_path, capsys):
    (tmp_path / "registration.secret").touch(mode=0o600)
    assert run(["server", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]) != 0
    assert "registration.secret is empty; delete it" in capsys.readouterr().err


def test_plugins_of_every_kind_are_listed(capsys):
    assert run(["plugins", "-o", "{kind} {name}"]) == 0
    listed = set(capsys.readouterr().out.splitlines())
    assert {"policy least", "dialect nextgen", "graph backend cypher", "manager slurm"} <= listed

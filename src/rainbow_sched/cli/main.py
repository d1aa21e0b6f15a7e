"""The program `rainbow`: its commands, and messages and exit codes for errors."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence

import click

from rainbow_sched import __version__
from rainbow_sched.cli.shell.lazy_group import LazyCommand, LazyGroup, OutputClosed

SECTIONS: Mapping[str, Mapping[str, LazyCommand]] = {
    "Jobs": {
        "submit": LazyCommand("rainbow_sched.cli.commands.submit:submit", "Submit a job; print its id."),
        "run": LazyCommand(
            "rainbow_sched.cli.commands.run:run", "Run a job and print its output; exit with its exit code."
        ),
        "plan": LazyCommand(
            "rainbow_sched.cli.commands.plan:plan", "Show where a job would run, and why; submit nothing."
        ),
        "explain": LazyCommand("rainbow_sched.cli.commands.explain:explain", "Explain the state of a job."),
        "jobs": LazyCommand("rainbow_sched.cli.commands.jobs:jobs", "List jobs."),
        "logs": LazyCommand("rainbow_sched.cli.commands.logs:logs", "Print the output of a job."),
        "wait": LazyCommand("rainbow_sched.cli.commands.wait:wait", "Wait until jobs have ended."),
        "cancel": LazyCommand("rainbow_sched.cli.commands.cancel:cancel", "Cancel jobs."),
        "release": LazyCommand("rainbow_sched.cli.commands.release:release", "Release held jobs."),
    },
    "Clusters": {
        "clusters": LazyCommand("rainbow_sched.cli.commands.clusters:clusters", "List clusters, or show one."),
        "register": LazyCommand(
            "rainbow_sched.cli.commands.register:register", "Register a cluster or one of its subsystems."
        ),
        "update": LazyCommand(
            "rainbow_sched.cli.commands.update:update", "Report a cluster's state or the state of its nodes."
        ),
        "drain": LazyCommand("rainbow_sched.cli.commands.drain:drain", "Stop new jobs on a cluster."),
        "undrain": LazyCommand("rainbow_sched.cli.commands.drain:undrain", "Allow new jobs on a cluster again."),
        "rules": LazyCommand(
            "rainbow_sched.cli.commands.rules:rules", "Set who may use a cluster and how large jobs may be."
        ),
        "receive": LazyCommand("rainbow_sched.cli.commands.receive:receive", "Receive jobs of a cluster by hand."),
        "delete": LazyCommand("rainbow_sched.cli.commands.delete:delete", "Delete a cluster or one of its subsystems."),
        "restored": LazyCommand(
            "rainbow_sched.cli.commands.restored:restored", "Show the results of a database restore."
        ),
    },
    "Servers": {
        "server": LazyCommand("rainbow_sched.cli.commands.server:server", "Run the scheduler."),
        "agent": LazyCommand("rainbow_sched.agent.main:agent", "Run the agent beside a cluster."),
        "discover": LazyCommand(
            "rainbow_sched.cli.commands.discover:discover", "Describe this machine or cluster; send nothing."
        ),
        "demo": LazyCommand("rainbow_sched.cli.commands.demo:demo", "Run a demonstration on this machine."),
        "torture": LazyCommand(
            "rainbow_sched.cli.commands.torture:torture", "Check the guarantees under simulated faults."
        ),
    },
    "Access": {
        "login": LazyCommand("rainbow_sched.cli.commands.login:login", "Check a token and save it in the config file."),
        "whoami": LazyCommand("rainbow_sched.cli.commands.whoami:whoami", "Show your user name and permissions."),
        "user": LazyCommand("rainbow_sched.cli.commands.user:user", "Add, change, list and disable users."),
        "group": LazyCommand(
            "rainbow_sched.cli.commands.group:group", "Add, change and list groups of clusters and users."
        ),
        "token": LazyCommand("rainbow_sched.cli.commands.token:token", "Create, list, rotate and revoke tokens."),
        "key": LazyCommand("rainbow_sched.cli.commands.key:key", "Create and show the key that signs your jobs."),
        "audit": LazyCommand("rainbow_sched.cli.commands.audit:audit", "Show the audit log."),
    },
    "This program": {
        "config": LazyCommand("rainbow_sched.cli.commands.config:config", "Write or show the configuration."),
        "plugins": LazyCommand("rainbow_sched.cli.commands.plugins:plugins", "List policies, dialects and backends."),
        "completion": LazyCommand(
            "rainbow_sched.cli.commands.completion:completion", "Print the shell's completion script."
        ),
    },
}

EPILOG = """\b
Examples:
  rainbow submit -N2 -n8 -t 30m -- ./simulate --steps 1000
  rainbow plan -g1 --software 'lammps@>=2024' job.sh
  rainbow jobs -w

\b
Environment: RAINBOW_SERVER, RAINBOW_TOKEN, RAINBOW_CONFIG, RAINBOW_OUTPUT,
RAINBOW_REGISTRATION_SECRET, RAINBOW_CLUSTER_SECRET, RAINBOW_CA, RAINBOW_CERT,
RAINBOW_KEY. Options override the environment, which overrides the config file.
"""
_EXTRAS_BY_COMMAND = {
    "agent": "agent",
    "discover": "agent",
    "submit": "sign",
    "run": "sign",
    "key": "sign",
}  # else: server
_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@click.group(cls=LazyGroup, sections=SECTIONS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="rainbow %(version)s")
def cli() -> None:
    """Submit jobs to many clusters. Rainbow finds a cluster that can run the job and explains the choice."""


def main() -> None:
    """Run the program and exit."""
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: collecting garbage once more would take a tenth of the time of a short command
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC's own messages are not for users
    _open_closed_streams()
    try:
        _check_encoding(args)
        result = cli.main(list(args), prog_name="rainbow", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, OutputClosed):  # as in `rainbow jobs | head`
        _drop_output()
        return 141
    except (KeyboardInterrupt, click.Abort):
        return 130
    except click.ClickException as error:
        return _usage_error(error, args)
    except Exception as error:  # Rainbow's errors are printed, others raised
        return _own_error(error, args)
    return result if isinstance(result, int) else 0


def _open_closed_streams() -> None:
    """Redirect a closed stdout or stderr (`>&-`) to /dev/null, so that no other file takes its place."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - open until the process ends


def _drop_output() -> None:
    """Discard buffered output, which cannot be written at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_encoding(args: Sequence[str]) -> None:
    from rainbow_sched.model.errors import Invalid

    for word in args:
        if not word.isascii() and word.encode(errors="ignore") != os.fsencode(word):
            raise Invalid(f"{os.fsencode(word)!r} is not UTF-8 text; names, files and commands must be")


def _usage_error(error: click.ClickException, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.messages import print_error
    from rainbow_sched.model.errors import Invalid

    message = error.format_message().rstrip(".")
    ctx = getattr(error, "ctx", None)
    if ctx is not None and "--help" not in message:
        message = f"{message}; see {ctx.command_path} --help"
    return print_error(Invalid(message), args)


def _own_error(error: Exception, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.messages import print_error
    from rainbow_sched.model.errors import RainbowError

    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("rainbow"):
        from rainbow_sched.installation import missing

        return print_error(
            missing(error.name, _EXTRAS_BY_COMMAND.get(args[0] if args else "", "server"), "this command"), args
        )
    if isinstance(error, OSError) and (error.filename is not None or error.errno in _WRITE_ERRORS):
        what = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the output"
        if error.filename is None:
            _drop_output()
        return print_error(RainbowError(f"cannot use {what}: {error.strerror}"), args)
    if not isinstance(error, RainbowError):
        raise error
    return print_error(error, args)

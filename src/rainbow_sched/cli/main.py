"""The program `rainbow`: its commands, and messages and exit codes for errors."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Mapping, Sequence

import click

from rainbow_sched import __version__
from rainbow_sched.cli.shell.lazy_group import LazyGroup, OutputClosed
from rainbow_sched.model.errors import Invalid, RainbowError

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Jobs": {
        "submit": "Submit a job; print its id.",
        "run": "Run a job and print its output; exit with its exit code.",
        "plan": "Show where a job would run, and why; submit nothing.",
        "explain": "Explain the state of a job.",
        "jobs": "List jobs.",
        "logs": "Print the output of a job.",
        "wait": "Wait until jobs have ended.",
        "cancel": "Cancel jobs.",
        "release": "Release held jobs.",
    },
    "Clusters": {
        "clusters": "List clusters, or show one.",
        "register": "Register a cluster or one of its subsystems.",
        "update": "Report a cluster's state or the state of its nodes.",
        "drain": "Stop new jobs on a cluster.",
        "undrain": "Allow new jobs on a cluster again.",
        "rules": "Set who may use a cluster and how large jobs may be.",
        "receive": "Receive jobs of a cluster by hand.",
        "delete": "Delete a cluster or one of its subsystems.",
        "restored": "Show the results of a database restore.",
    },
    "Servers": {
        "server": "Run the scheduler.",
        "agent": "Run the agent beside a cluster.",
        "discover": "Describe this machine or cluster; send nothing.",
        "demo": "Run a demonstration on this machine.",
        "torture": "Check the guarantees under simulated faults.",
    },
    "Access": {
        "login": "Check a token and save it in the config file.",
        "whoami": "Show your user name and permissions.",
        "user": "Add, change, list and disable users.",
        "group": "Add, change and list groups of clusters and users.",
        "token": "Create, list, rotate and revoke tokens.",
        "key": "Create and show the key that signs your jobs.",
        "audit": "Show the audit log.",
    },
    "This program": {
        "config": "Write or show the configuration.",
        "plugins": "List policies, dialects and backends.",
        "completion": "Print the shell's completion script.",
    },
}
_MODULES = {  # the others are in cli/commands/NAME.py
    "agent": "rainbow_sched.agent.main",
    "undrain": "rainbow_sched.cli.commands.drain",
    "user": "rainbow_sched.cli.commands.accounts",
    "group": "rainbow_sched.cli.commands.accounts",
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


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    modules=_MODULES,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    for word in args:
        if not word.isascii() and word.encode(errors="ignore") != os.fsencode(word):
            raise Invalid(f"{os.fsencode(word)!r} is not UTF-8 text; names, files and commands must be")


def _usage_error(error: click.ClickException, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.exit_codes import print_error

    message = error.format_message().rstrip(".")
    ctx = getattr(error, "ctx", None)
    if ctx is not None and "--help" not in message:
        message = f"{message}; see {ctx.command_path} --help"
    return print_error(Invalid(message), args)


def _own_error(error: Exception, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.exit_codes import print_error

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

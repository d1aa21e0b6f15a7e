"""The program `rainbow`: its table of commands, and how every ending becomes a message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping, Sequence

import click

from rainbow_sched import __version__
from rainbow_sched.cli.shell.lazy_group import Lazy, LazyGroup, ReaderGone

SECTIONS: Mapping[str, Mapping[str, Lazy]] = {
    "Jobs": {
        "submit": Lazy("rainbow_sched.cli.commands.submit:submit", "Submit a job; print its id."),
        "run": Lazy("rainbow_sched.cli.commands.run:run", "Run a job and stay with it: its output, its exit code."),
        "plan": Lazy("rainbow_sched.cli.commands.plan:plan", "Show where a job would go, and why; submit nothing."),
        "explain": Lazy("rainbow_sched.cli.commands.explain:explain", "Say why a job is where it is."),
        "jobs": Lazy("rainbow_sched.cli.commands.jobs:jobs", "List jobs."),
        "logs": Lazy("rainbow_sched.cli.commands.logs:logs", "Print the output of a job."),
        "wait": Lazy("rainbow_sched.cli.commands.wait:wait", "Wait until jobs have ended."),
        "cancel": Lazy("rainbow_sched.cli.commands.cancel:cancel", "Cancel jobs."),
        "release": Lazy("rainbow_sched.cli.commands.release:release", "Release jobs that were submitted with --hold."),
    },
    "Clusters": {
        "clusters": Lazy("rainbow_sched.cli.commands.clusters:clusters", "List clusters, or show one."),
        "register": Lazy(
            "rainbow_sched.cli.commands.register:register", "Register a cluster or one of its subsystems."
        ),
        "update": Lazy(
            "rainbow_sched.cli.commands.update:update", "Report a cluster's state or the state of its nodes."
        ),
        "drain": Lazy("rainbow_sched.cli.commands.drain:drain", "Give a cluster no new work."),
        "undrain": Lazy("rainbow_sched.cli.commands.drain:undrain", "Give a cluster new work again."),
        "rules": Lazy("rainbow_sched.cli.commands.rules:rules", "Say who may use a cluster, and for how much."),
        "receive": Lazy("rainbow_sched.cli.commands.receive:receive", "Take jobs of a cluster by hand."),
        "delete": Lazy("rainbow_sched.cli.commands.delete:delete", "Delete a cluster or one of its subsystems."),
        "restored": Lazy(
            "rainbow_sched.cli.commands.restored:restored", "Show what a restore found and which clusters must report."
        ),
    },
    "Servers": {
        "server": Lazy("rainbow_sched.cli.commands.server:server", "Run the scheduler."),
        "agent": Lazy("rainbow_sched.agent.main:agent", "Run the agent beside a cluster."),
        "discover": Lazy(
            "rainbow_sched.cli.commands.discover:discover", "Say what this machine or cluster is; send nothing."
        ),
        "demo": Lazy("rainbow_sched.cli.commands.demo:demo", "Show all of it on this machine, in a minute."),
        "torture": Lazy("rainbow_sched.cli.commands.torture:torture", "Check every promise under simulated faults."),
    },
    "Access": {
        "login": Lazy("rainbow_sched.cli.commands.login:login", "Check a token and keep it in the config file."),
        "whoami": Lazy("rainbow_sched.cli.commands.whoami:whoami", "Show who the server takes you for."),
        "user": Lazy("rainbow_sched.cli.commands.user:user", "Add, change, list and disable users."),
        "group": Lazy("rainbow_sched.cli.commands.group:group", "Add, change and list groups of clusters and users."),
        "token": Lazy("rainbow_sched.cli.commands.token:token", "Make, list, rotate and revoke tokens."),
        "key": Lazy("rainbow_sched.cli.commands.key:key", "Make and show the key that signs your jobs."),
        "audit": Lazy("rainbow_sched.cli.commands.audit:audit", "Show who did what, and who was refused."),
    },
    "This program": {
        "config": Lazy("rainbow_sched.cli.commands.config:config", "Write or show the configuration."),
        "plugins": Lazy("rainbow_sched.cli.commands.plugins:plugins", "List policies, dialects and backends."),
        "completion": Lazy("rainbow_sched.cli.commands.completion:completion", "Print the shell's completion script."),
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
RAINBOW_KEY. A flag beats the environment, the environment beats the config file.
Nothing is printed in colour.
"""


_EXTRAS = {"agent": "agent", "discover": "agent", "submit": "sign", "run": "sign", "key": "sign"}  # else: server
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@click.group(cls=LazyGroup, sections=SECTIONS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="rainbow %(version)s")
def cli() -> None:
    """One door to many clusters: submit a job, and Rainbow finds a cluster that can run it and says why."""


def main() -> None:
    """The entry point: run, and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Run one command line; the exit code."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own words are for programmers; ours say what to do
    _open_closed_streams()
    try:
        _need_text(args)
        result = cli.main(list(args), prog_name="rainbow", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGone):  # the reader has seen enough, as in `rainbow jobs | head`
        _drop_output()
        return 141
    except (KeyboardInterrupt, click.Abort):
        return 130
    except click.ClickException as error:
        return _usage_error(error, args)
    except Exception as error:  # the outermost edge: ours become a sentence, others stay a traceback
        return _own_error(error, args)
    return result if isinstance(result, int) else 0


def _open_closed_streams() -> None:
    """What was closed (`>&-`) leads nowhere; else the narrative for a closed stderr would go to stdout."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open as long as the process


def _drop_output() -> None:
    """What is still in the buffer cannot be written, also not at the very end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _need_text(args: Sequence[str]) -> None:
    from rainbow_sched.model.errors import Invalid

    for word in args:
        if not word.isascii() and word.encode(errors="ignore") != os.fsencode(word):
            raise Invalid(f"{os.fsencode(word)!r} is not text in UTF-8, as names, files and commands have to be")


def _usage_error(error: click.ClickException, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.messages import say_error
    from rainbow_sched.model.errors import Invalid

    message = error.format_message().rstrip(".")
    ctx = getattr(error, "ctx", None)
    if ctx is not None and "--help" not in message:
        message = f"{message}; see {ctx.command_path} --help"
    return say_error(Invalid(message), args)


def _own_error(error: Exception, args: Sequence[str]) -> int:
    from rainbow_sched.cli.shell.messages import say_error
    from rainbow_sched.model.errors import RainbowError

    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("rainbow"):
        from rainbow_sched.installation import missing

        return say_error(missing(error.name, _EXTRAS.get(args[0] if args else "", "server"), "this command"), args)
    if isinstance(error, OSError) and (error.filename is not None or error.errno in _NO_ROOM):
        what = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the output"
        if error.filename is None:
            _drop_output()
        return say_error(RainbowError(f"cannot use {what}: {error.strerror}"), args)
    if not isinstance(error, RainbowError):
        raise error
    return say_error(error, args)

"""Write docs/cli.md from the commands: `python -m tools.write_cli_reference docs/cli.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from rainbow_sched.cli.main import SECTIONS, cli
from rainbow_sched.cli.shell.exit_codes import EXIT_CODES_BY_ERROR, ExitCode

HEAD = """\
# The command line

Generated from the program by `python -m tools.write_cli_reference docs/cli.md`; a test keeps it current.

Results go to stdout, messages to stderr. Every listing takes `-o table|wide|json|jsonl|yaml|name` or a format such as
`'{id} {state}'`. JSON names its schema and version, times are RFC 3339 in UTC, and an absent key is an unknown value.
An error is one sentence with cause and remedy; with `-o json` it is `{"error": {"code", "message"}}`. On a terminal,
control sequences in names and in job output are removed, unless `--raw` is given; a pipe gets every byte.

Jobs are named by id, range (`3-9`), name, `last`, `all`, or a cluster's own id (`perl:88123`). Times are `+2h`, `-1d`,
`09:30` or ISO; durations `90`, `30m`, `1.5h` or `01:30:00`.
"""
MEANINGS = {
    ExitCode.OK: "ok; `plan`: it fits now",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "wrong usage, or a specification that cannot be right",
    ExitCode.UNSATISFIABLE: "no cluster could ever run it",
    ExitCode.NOT_FOUND: "not found",
    ExitCode.DENIED: "denied",
    ExitCode.UNREACHABLE: "no server answers",
    ExitCode.LATER: "something could run it, but not now (`plan`)",
    ExitCode.TIME_LIMIT: "`run`, `wait`: a time limit or deadline passed",
    ExitCode.RAINBOW_FAILED: "`run`, `wait`: Rainbow itself failed, or the job never began",
    ExitCode.INTERRUPTED: "interrupted, or the job was cancelled",
}


def main(arguments: list[str]) -> None:
    """Write the page to the given file."""
    Path(arguments[0]).write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the whole page."""
    return "\n".join((HEAD, *_exit_codes(), *_commands())).rstrip() + "\n"


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n\n| code | meaning | error code in JSON |\n|---|---|---|"
    for code, meaning in MEANINGS.items():
        named = ", ".join(f"`{name}`" for _, of_class, name in EXIT_CODES_BY_ERROR if of_class is code)
        yield f"| {int(code)} | {meaning} | {named} |"
    yield "\n`run` and `wait` end with the job's own code, 128+n after signal n; `wait` for several with the largest.\n"


def _commands() -> Iterator[str]:
    for title, section in SECTIONS.items():
        yield f"## {title}\n"
        for name in section:
            root = click.Context(cli, info_name="rainbow", **cli.context_settings)
            command = cli.get_command(root, name)
            assert command is not None, "the table names it"
            yield from _command(command, click.Context(command, info_name=name, parent=root))


def _command(command: click.Command, ctx: click.Context) -> Iterator[str]:
    yield f"### {ctx.command_path}\n\n```text\n{_help(command, ctx)}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None, "the group lists it"
            yield from _command(inner, click.Context(inner, info_name=name, parent=ctx))


def _help(command: click.Command, ctx: click.Context) -> str:
    ctx.terminal_width = ctx.max_content_width = 100
    formatter = click.HelpFormatter(width=100, max_width=100)
    command.format_help(ctx, formatter)
    return "\n".join(line.rstrip() for line in formatter.getvalue().rstrip().splitlines())


if __name__ == "__main__":
    main(sys.argv[1:])

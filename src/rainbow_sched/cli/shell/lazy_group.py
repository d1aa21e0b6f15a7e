"""Groups of commands: what they say to a name that is none, and how `rainbow` imports only the command that is run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from rainbow_sched.model.hints import nearest


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is defined, and the line that `--help` shows of it."""

    where: str  # module:attribute
    help: str


class ReaderGone(Exception):
    """Whoever read the output has closed the pipe; a type of its own, since click makes an exit code 1 of the error."""


class Commands(click.Group):
    """A group that answers a missing name with its help, and a wrong one with the names there are."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGone from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command, show the help as text; an option that stands before the command belongs after it."""
        if not args and self.no_args_is_help:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.invoke_without_command:
                raise  # it has options of its own, and this is none of them
            option = error.option_name
            raise click.UsageError(
                f"{option} does not stand before a command; write it behind: {ctx.command_path} COMMAND {option}",
                ctx,
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` names; a name that is none is answered with the nearest, or with all."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = nearest(args[0], names := self.list_commands(ctx))
            hint = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(Commands):
    """Shows its commands from a table in sections; imports only the one that is used."""

    def __init__(self, *args: Any, sections: Mapping[str, Mapping[str, Lazy]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return [name for section in self.sections.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        for section in self.sections.values():
            if cmd_name in section:
                module, _, attribute = section[cmd_name].where.partition(":")
                command: click.Command = getattr(importlib.import_module(module), attribute)
                return command
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table's own lines, without an import."""
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])

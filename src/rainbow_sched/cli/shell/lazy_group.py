"""Command groups: help for unknown commands, and lazy import of the command that is run."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import click

from rainbow_sched.model.hints import nearest


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Suspend the garbage collector, which would take a tenth of the time; modules are not garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class OutputClosed(Exception):
    """The reader closed the pipe. click would turn the BrokenPipeError into exit code 1."""


class CommandGroup(click.Group):
    """A group that shows its help without a command, and suggests commands for an unknown one."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Show the help if there is no command, and explain where an option belongs that is in the wrong place."""
        if not args and self.no_args_is_help:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if self.invoke_without_command:
                raise  # the group has options of its own
            option = error.option_name
            raise click.UsageError(
                f"put {option} after the command: {ctx.command_path} COMMAND {option}",
                ctx,
            ) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that `args` names; for an unknown name, raise UsageError with suggestions."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = nearest(args[0], names := self.list_commands(ctx))
            hint = f"did you mean {near}?" if near else f"use {', '.join(names)}"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """Lists its commands from a table in sections, and imports only the one that is used.

    `sections` has the line of help by command. A command is in the module of its name under `cli/commands`, or in
    the one that `modules` names.
    """

    def __init__(
        self, *args: Any, sections: Mapping[str, Mapping[str, str]], modules: Mapping[str, str], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.sections, self.modules = sections, modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for section in self.sections.values() for name in section]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        with importing():
            module = importlib.import_module(self.modules.get(cmd_name, f"rainbow_sched.cli.commands.{cmd_name}"))
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(list(section.items()))

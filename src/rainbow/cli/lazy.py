"""A group of commands that are imported when they are run, so that `rainbow --help` starts at once."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is defined, and the line that `--help` shows of it."""

    where: str  # module:attribute
    help: str


class LazyGroup(click.Group):
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that `args` names; a name that is none is answered with the nearest."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f"; did you mean {near[0]}?" if near else "; rainbow --help lists them"
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table's own lines, without an import."""
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.help) for name, entry in section.items()])

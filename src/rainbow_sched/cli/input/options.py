"""Options shared by several commands: `-o`, `-M`, whole numbers and KEY=VALUE pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rainbow_sched.cli.render.listings import FORMATS, MACHINE_FORMATS
from rainbow_sched.model.hints import nearest

Command = TypeVar("Command", bound=Callable[..., Any])


class WholeNumber(click.IntRange):
    """A whole number within bounds, which click calls an `integer range`."""

    name = "whole number"


class OutputFormat(click.ParamType[str]):
    """The value of `-o`: a named format, or a text such as '{id} {state}'."""

    name = "format"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "FORMAT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format, or a usage error that names the formats there are."""
        if value in FORMATS or "{" in value:
            return value
        near = nearest(value, FORMATS)
        hint = f"did you mean {near}?" if near else "use " + ", ".join(FORMATS) + " or '{id} {state}'"
        return self.fail(f"there is no output format {value!r}; {hint}", param, ctx)


def output(command: Command) -> Command:
    """Add `-o` to a listing."""
    return _format_option("table, wide, json, jsonl, yaml, name, or a format such as '{id} {state}'.")(command)


def document_output(*also: str) -> Callable[[Command], Command]:
    """Add `-o` to a command whose output is one document; `also` adds formats."""
    formats = ("table", *MACHINE_FORMATS, *also)

    def checked(ctx: click.Context, param: click.Parameter, value: str) -> str:
        if value in (*formats, "wide"):
            return value
        if ctx.get_parameter_source("format") is click.core.ParameterSource.ENVIRONMENT:
            return "table"  # RAINBOW_OUTPUT applies to listings
        raise click.UsageError(f"this output has no rows to show as {value!r}; use -o {', '.join(formats)}")

    return _format_option(f"{', '.join(formats[:-1])} or {formats[-1]}.", callback=checked)


def _format_option(help: str, **more: Any) -> Callable[[Command], Command]:
    return click.option(
        "-o", "--output", "format", type=OutputFormat(), default="table", envvar="RAINBOW_OUTPUT", help=help, **more
    )


def number(*names: str, least: int, help: str) -> Callable[[Command], Command]:
    """Add an option that takes a whole number of at least `least`."""
    return click.option(*names, type=WholeNumber(least), metavar="N", help=help)


def on_clusters(help: str) -> Callable[[Command], Command]:
    """Add `-M NAME[,NAME]`, as Slurm's commands take it."""
    return click.option(
        "-M", "--clusters", metavar="NAME[,NAME]", callback=lambda ctx, param, value: names(value or ""), help=help
    )


def names(text: str) -> tuple[str, ...]:
    """Split `a,b` at commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """Return KEY=VALUE words as a mapping."""
    out: dict[str, str] = {}
    for value in values:
        key, separator, rest = value.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{option} takes KEY=VALUE, not {value!r}")
        out[key] = rest
    return out

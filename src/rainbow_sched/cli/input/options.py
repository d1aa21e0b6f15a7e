"""Options that several commands share: `-o`, `-M`, numbers, and how key=value pairs are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rainbow_sched.cli.render.listings import FORMS, MACHINE
from rainbow_sched.model.hints import nearest

Command = TypeVar("Command", bound=Callable[..., Any])


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType  # generic to type checkers only, in older versions of click


class Whole(click.IntRange):
    """A whole number within bounds; click would call it an `integer range`."""

    name = "whole number"


class Form(_TextType):
    """The value of `-o`: one of the forms, or a '{format}'."""

    name = "form"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """As shown in the help."""
        return "FORM"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The form, or a usage error that names the forms there are."""
        if value in FORMS or "{" in value:
            return value
        near = nearest(value, FORMS)
        hint = f"did you mean {near}?" if near else "use " + ", ".join(FORMS) + " or '{id} {state}'"
        return self.fail(f"there is no output form {value!r}; {hint}", param, ctx)


def output(command: Command) -> Command:
    """Add `-o`."""
    return _form("table, wide, json, jsonl, yaml, name, or a format such as '{id} {state}'.")(command)


def document_output(*also: str) -> Callable[[Command], Command]:
    """Add `-o` to a command that answers with one thing, which has no rows; `also` names more forms that it takes."""
    forms = ("table", *MACHINE, *also)

    def checked(ctx: click.Context, param: click.Parameter, value: str) -> str:
        if value in (*forms, "wide"):
            return value
        if ctx.get_parameter_source("form") is click.core.ParameterSource.ENVIRONMENT:
            return "table"  # it was said for all commands, and for listings it is right
        raise click.UsageError(f"there are no rows here to show as {value!r}; -o takes {', '.join(forms)}")

    return _form(f"{', '.join(forms[:-1])} or {forms[-1]}.", callback=checked)


def _form(help: str, **more: Any) -> Callable[[Command], Command]:
    return click.option(
        "-o", "--output", "form", type=Form(), default="table", envvar="RAINBOW_OUTPUT", help=help, **more
    )


def on_clusters(help: str) -> Callable[[Command], Command]:
    """Add `-M NAME[,NAME]`, as Slurm's commands take it."""
    return click.option("-M", "--clusters", "clusters", metavar="NAME[,NAME]", callback=_names, help=help)


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return names(value or "")


def names(text: str) -> tuple[str, ...]:
    """`a,b` as its parts."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def pairs(values: tuple[str, ...], option: str) -> dict[str, str]:
    """`k=v` words as a mapping."""
    out: dict[str, str] = {}
    for value in values:
        key, separator, rest = value.partition("=")
        if not separator or not key:
            raise click.UsageError(f"{option} takes KEY=VALUE, not {value!r}")
        out[key] = rest
    return out

"""Print listings in every format of `-o`: table, JSON, JSON lines, YAML, names, or a user's format."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import click

from rainbow_sched.cli.render.terminal import clean, one_line, width
from rainbow_sched.model.errors import Invalid

FORMATS = ("table", "wide", "json", "jsonl", "yaml", "name")
MACHINE_FORMATS = ("json", "jsonl", "yaml")


class Column(NamedTuple):
    """One column of a table."""

    header: str
    value: Callable[[Mapping[str, Any]], str]
    right: bool = False
    wide: bool = False  # shown with -o wide only
    blank: str = "-"  # shown if there is no value


def text(key: str) -> Callable[[Mapping[str, Any]], str]:
    """Return a column value that shows the row's `key`, a list with commas."""

    def value(row: Mapping[str, Any]) -> str:
        shown = row.get(key, "")
        return ",".join(shown) if isinstance(shown, list | tuple) else str(shown)

    return value


def plain_columns(*headers: str, right: bool = False, wide: bool = False) -> tuple[Column, ...]:
    """Return columns that show the values of the same names in lower case."""
    return tuple(Column(header, text(header.lower()), right, wide) for header in headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Layout of a listing. '{...}' formats may use `fields`, and `keys`: all keys that a row may have."""

    schema: str  # rainbow.jobs/1
    key: str  # jobs
    columns: tuple[Column, ...]
    keys: tuple[str, ...]  # a format shows a missing one as empty
    name: str = "name"  # the key that -o name prints
    fields: Mapping[str, Callable[[Mapping[str, Any]], object]] = field(default_factory=dict)
    empty: str = ""  # set: an empty table is not printed


def listing_text(listing: Listing, rows: Sequence[Mapping[str, Any]], format: str) -> str:
    """Return the whole output with line ends."""
    if format in ("table", "wide"):
        if not rows and listing.empty:
            return ""
        return table(listing.columns, rows, wide=format == "wide")
    if format == "name":
        return "".join(f"{one_line(str(row.get(listing.name, '')))}\n" for row in rows)
    if format == "jsonl":
        return "".join(json_text(row) for row in rows)
    if format in ("json", "yaml"):
        return document_text({"schema": listing.schema, listing.key: list(rows)}, format)
    if not rows:
        _check_names(format, listing)
    return "".join(f"{_formatted(format, listing, row)}\n" for row in rows)


def document_text(document: Mapping[str, Any], format: str) -> str:
    """Return one JSON or YAML document."""
    if format == "yaml":
        from rainbow_sched.documents.yaml_writer import to_yaml  # expensive to import, and rarely used

        return to_yaml(json.loads(json.dumps(document)))
    return json_text(document)


def print_listing(listing: Listing, rows: Sequence[Mapping[str, Any]], format: str) -> None:
    """Print a listing on stdout."""
    click.echo(listing_text(listing, rows, format), nl=False)


def print_document(schema: str, values: Mapping[str, Any], format: str, text: Callable[[], str]) -> None:
    """Print one document on stdout: the values as JSON or YAML, else the text for people."""
    machine = format in MACHINE_FORMATS
    click.echo(document_text({"schema": schema, **values}, format) if machine else text(), nl=False)


def json_text(value: object) -> str:
    """Return one line of JSON, in ASCII, so that it is safe for a terminal."""
    return json.dumps(value, allow_nan=False) + "\n"


def table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], *, wide: bool = False, indent: str = "") -> str:
    """Return a table with a header; each cell is cleaned and on one line."""
    shown = [column for column in columns if wide or not column.wide]
    cells = [[column.header for column in shown]]
    cells += [[one_line(column.value(row)) or column.blank for column in shown] for row in rows]
    widths = [max(width(line[at]) for line in cells) for at in range(len(shown))]
    return "".join(f"{indent}{_line(shown, line, widths)}\n" for line in cells)


def _line(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, cell, size in zip(columns, cells, widths, strict=True):
        blanks = " " * (size - width(cell))
        parts.append(blanks + cell if column.right else cell + blanks)
    return " ".join(parts).rstrip()


class _FieldFormatter(string.Formatter):
    """Formats like '{id:>8} {state}': plain names only, no attributes and no indexes."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        if field_name not in kwargs:
            raise _unknown(field_name, kwargs)
        return kwargs[field_name], field_name


def _formatted(format: str, listing: Listing, row: Mapping[str, Any]) -> str:
    values = dict.fromkeys(listing.keys, "") | {name: value(row) for name, value in listing.fields.items()} | dict(row)
    try:
        return clean(_FieldFormatter().vformat(format, (), values))
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:  # the last two: huge widths
        raise _no_format(format, error) from None


def _check_names(format: str, listing: Listing) -> None:
    """Raise Invalid for a wrong format also if there are no rows to format."""
    known = {*listing.keys, *listing.fields}
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(format) if name is not None]
    except ValueError as error:
        raise _no_format(format, error) from None
    for name in names:
        if name not in known:
            raise _unknown(name, known)


def _unknown(name: str, known: Iterable[str]) -> Invalid:
    return Invalid(f"there is no field {name!r}; use {', '.join(sorted(known))}")


def _no_format(format: str, error: Exception) -> Invalid:
    reason = str(error) or "it needs too much memory"
    return Invalid(f"{format!r} is not a format: {reason}; write for example '{{id}} {{state}}'")

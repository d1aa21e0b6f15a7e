"""Listings in every form of `-o`: tables for people, versioned JSON, JSON lines and YAML for programs."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rainbow_sched.cli.render.terminal import clean, one_line, width
from rainbow_sched.model.errors import Invalid

FORMS = ("table", "wide", "json", "jsonl", "yaml", "name")
MACHINE = ("json", "jsonl", "yaml")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    header: str
    value: Callable[[Mapping[str, Any]], str]
    right: bool = False
    wide: bool = False  # shown with -o wide only
    blank: str = "-"  # what stands where there is no value


def text(key: str) -> Callable[[Mapping[str, Any]], str]:
    """The value of a column that shows what a row has under `key`."""
    return lambda row: str(row.get(key, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How one kind of thing is listed. '{...}' formats may name `fields` and `keys`, all that a row may have."""

    schema: str  # rainbow.jobs/1
    key: str  # jobs
    columns: tuple[Column, ...]
    keys: tuple[str, ...]  # a format shows one that a row lacks as nothing
    name: str = "name"  # the key that -o name prints
    fields: Mapping[str, Callable[[Mapping[str, Any]], object]] = field(default_factory=dict)
    empty: str = ""  # what a table says when there is nothing


def listing_text(listing: Listing, rows: Sequence[Mapping[str, Any]], form: str) -> str:
    """The whole output, line ends included."""
    if form in ("table", "wide"):
        if not rows and listing.empty:
            return ""
        return table(listing.columns, rows, wide=form == "wide")
    if form == "name":
        return "".join(f"{one_line(str(row.get(listing.name, '')))}\n" for row in rows)
    if form == "jsonl":
        return "".join(json_text(row) for row in rows)
    if form in ("json", "yaml"):
        return document_text({"schema": listing.schema, listing.key: list(rows)}, form)
    if not rows:
        _need_names(form, listing)
    return "".join(f"{_formatted(form, listing, row)}\n" for row in rows)


def document_text(document: Mapping[str, Any], form: str) -> str:
    """One JSON or YAML value."""
    if form == "yaml":
        import yaml  # dear to import, and rarely asked for

        text: str = yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False, default_flow_style=False)
        return text
    return json_text(document)


def json_text(value: object) -> str:
    """One line of JSON. Everything but ASCII is escaped, so nothing in it can harm a terminal."""
    return json.dumps(value, allow_nan=False) + "\n"


def table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], *, wide: bool = False, indent: str = "") -> str:
    """A table with a header; each cell is on one line and safe to print."""
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


class _Fields(string.Formatter):
    """Formats like '{id:>8} {state}': plain names only, no attributes and no indexes."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        if field_name not in kwargs:
            raise _unknown(field_name, kwargs)
        return kwargs[field_name], field_name


def _formatted(form: str, listing: Listing, row: Mapping[str, Any]) -> str:
    values = dict.fromkeys(listing.keys, "") | {name: value(row) for name, value in listing.fields.items()} | dict(row)
    try:
        return clean(_Fields().vformat(form, (), values))
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:  # the last two: absurd widths
        raise _no_format(form, error) from None


def _need_names(form: str, listing: Listing) -> None:
    """A format is as right or wrong without rows as with them: a script learns of it today, not with the first row."""
    known = {*listing.keys, *listing.fields}
    try:
        named = [name for _, name, _, _ in string.Formatter().parse(form) if name is not None]
    except ValueError as error:
        raise _no_format(form, error) from None
    for name in named:
        if name not in known:
            raise _unknown(name, known)


def _unknown(name: str, known: Iterable[str]) -> Invalid:
    return Invalid(f"a format cannot name {name!r}; it knows {', '.join(sorted(known))}")


def _no_format(form: str, error: Exception) -> Invalid:
    said = str(error) or "it asks for too much"
    return Invalid(f"{form!r} is not a format: {said}; write for example '{{id}} {{state}}'")

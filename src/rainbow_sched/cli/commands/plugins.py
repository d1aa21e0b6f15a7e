"""`rainbow plugins`: list the installed plugins, with load errors."""

from __future__ import annotations

from collections.abc import Iterator

import click

from rainbow_sched.cli.input.options import output
from rainbow_sched.cli.render.listings import Listing, plain_columns, print_listing
from rainbow_sched.model.errors import RainbowError

EPILOG = """\b
Packages add plugins with the entry points rainbow.policies, rainbow.dialects, rainbow.graphs
and rainbow.backends.

\b
Examples:
  rainbow plugins
  rainbow plugins -o json
"""
LISTING = Listing(
    schema="rainbow.plugins/1",
    key="plugins",
    keys=("kind", "name", "origin", "error"),
    columns=plain_columns("KIND", "NAME", "ORIGIN", "ERROR"),
)


@click.command(epilog=EPILOG)
@output
def plugins(format: str) -> None:
    """List the policies, dialects and backends of this installation, and those that fail to load."""
    from rainbow_sched.jobspecs.registry import dialects
    from rainbow_sched.selection.policies import installed

    rows = [_row("policy", policy.name, policy.origin, policy.error) for policy in installed().listing()]
    rows += [_row("dialect", dialect.name, dialect.origin, dialect.error) for dialect in dialects().values()]
    print_listing(LISTING, [*rows, *_graphs(), *_managers()], format)


def _row(kind: str, name: str, origin: str, error: str = "") -> dict[str, str]:
    return {"kind": kind, "name": name, "origin": origin, **({"error": error} if error else {})}


def _graphs() -> Iterator[dict[str, str]]:
    from rainbow_sched.graphs.backend import BACKENDS, load, names

    for name in names():
        try:
            load(name)
            error = ""
        except RainbowError as failed:
            error = str(failed)
        yield _row("graph backend", name, "built in" if name in BACKENDS else "installed", error)


def _managers() -> Iterator[dict[str, str]]:
    from rainbow_sched.agent.backends import BACKENDS, backend_names, load_backend

    for name in backend_names():
        try:
            load_backend(name)
            error = ""
        except Exception as failed:  # an import of third-party code may raise anything
            error = f"{type(failed).__name__}: {failed}"
        yield _row("manager", name, "built in" if name in BACKENDS else "installed", error)

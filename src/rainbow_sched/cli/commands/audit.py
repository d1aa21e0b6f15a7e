"""`rainbow audit`: list the audit log, or verify it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import WholeNumber, output
from rainbow_sched.cli.render.listings import (
    MACHINE_FORMATS,
    Column,
    Listing,
    plain_columns,
    print_document,
    print_listing,
    text,
)
from rainbow_sched.cli.render.terminal import print_message
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.access import AuditLog

EPILOG = """\b
Each line contains a digest of all lines before it. --verify checks the digests and exits
with 1 if a line was changed, removed or inserted. To detect removed lines at the end of
the log, store the digest of the newest line elsewhere.

\b
Examples:
  rainbow audit
  rainbow audit --actor ana --verb job.submit
  rainbow audit --outcome denied -o jsonl
  rainbow audit --verify
"""
LISTING = Listing(
    schema="rainbow.audit/1",
    key="lines",
    keys=("seq", "at", "actor", "credential", "address", "verb", "object", "outcome", "detail", "digest"),
    name="seq",
    columns=(
        Column("SEQ", text("seq"), right=True),
        Column("TIME", text("at")),
        *plain_columns("ACTOR", "VERB", "OBJECT", "OUTCOME", "DETAIL"),
        Column("ADDRESS", text("address"), wide=True),
        Column("TOKEN", text("credential"), wide=True),
        Column("DIGEST", text("digest"), wide=True),
    ),
)


@click.command(epilog=EPILOG)
@click.option("--actor", default="", metavar="NAME", help="Only actions of this user.")
@click.option(
    "--verb", default="", metavar="VERB", help="Only this action: job.submit, token.revoke, cluster.delete ..."
)
@click.option("--object", default="", metavar="NAME", help="Only actions on this object.")
@click.option("--outcome", default="", metavar="WORD", help="Only this outcome: done, denied or unauthenticated.")
@click.option("--address", default="", metavar="HOST", help="Only calls from this address.")
@click.option("--after", type=int, default=None, metavar="SEQ", help="Lines after this one (default: the newest).")
@click.option(
    "-n", "--limit", type=WholeNumber(1, 1000), default=100, show_default=True, help="Maximum number of lines."
)
@click.option("--verify", is_flag=True, help="Verify the digests of the whole log.")
@output
@connected
def audit(connector: Connector, after: int | None, limit: int, verify: bool, format: str, **filters: str) -> int:
    """List the audit log, or verify that it was not changed. For administrators."""
    equal = {name: value for name, value in filters.items() if value}
    newest = after is None and not equal
    page = connector.call(
        lambda client: client.audit(after=after or 0, limit=limit, verify=verify, newest=newest, **equal)
    )
    if verify:
        return print_verification(page, format)
    print_listing(LISTING, [line.as_dict() for line in page.lines], format)
    if page.next:
        print_message(f"there are more lines: rainbow audit --after {page.next}")
    return 0


def print_verification(page: AuditLog, format: str) -> int:
    """Print whether the log is unchanged; return the exit code."""
    last = page.lines[-1].digest if page.lines else ""
    document: dict[str, object] = {"verified": page.verified, "count": page.count}
    document |= {"digest": last} if page.verified else {"broken_at": page.broken_at}
    valid = f"{page.count} lines, all digests are valid; digest of the newest: {last or '-'}\n"
    print_document("rainbow.audit-check/1", document, format, lambda: valid if page.verified else "")
    if not page.verified and format not in MACHINE_FORMATS:
        print_message(
            f"the digest of line {page.broken_at} of {page.count} is invalid: this line or a later one was changed"
        )
    return 0 if page.verified else 1

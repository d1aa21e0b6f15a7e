"""`rainbow audit`: who did what, who was refused, and whether the log was touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.options import Whole, output
from rainbow_sched.cli.render.listings import MACHINE, Column, Listing, document_text, listing_text
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client.views import AuditLog

EPILOG = """\b
Each line is chained to the one before it by a digest: --verify walks the chain and
ends with exit code 1 if a line was changed, removed or put in. Keep the digest of
the newest line elsewhere, and the end of the log is sealed, too.

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
        Column("SEQ", lambda row: str(row["seq"]), right=True),
        Column("TIME", lambda row: row["at"]),
        Column("ACTOR", lambda row: row.get("actor", "")),
        Column("VERB", lambda row: row.get("verb", "")),
        Column("OBJECT", lambda row: row.get("object", "")),
        Column("OUTCOME", lambda row: row.get("outcome", "")),
        Column("DETAIL", lambda row: row.get("detail", "")),
        Column("ADDRESS", lambda row: row.get("address", ""), wide=True),
        Column("TOKEN", lambda row: row.get("credential", ""), wide=True),
        Column("DIGEST", lambda row: row.get("digest", ""), wide=True),
    ),
)


@click.command(epilog=EPILOG)
@click.option("--actor", default="", metavar="NAME", help="Who did it.")
@click.option("--verb", default="", metavar="VERB", help="What: job.submit, token.revoke, cluster.delete ...")
@click.option("--object", "thing", default="", metavar="NAME", help="To what.")
@click.option("--outcome", default="", metavar="WORD", help="done, denied or unauthenticated.")
@click.option("--address", default="", metavar="HOST", help="From where.")
@click.option("--after", type=int, default=None, metavar="SEQ", help="Lines after this one (default: the newest).")
@click.option("-n", "--limit", type=Whole(1, 1000), default=100, show_default=True, help="How many.")
@click.option("--verify", is_flag=True, help="Walk the whole chain.")
@output
@connected
def audit(
    link: Link,
    actor: str,
    verb: str,
    thing: str,
    outcome: str,
    address: str,
    after: int | None,
    limit: int,
    verify: bool,
    form: str,
) -> int:
    """List the audit log, or check that nobody touched it. For administrators."""
    from rainbow_sched.cli.shell.messages import say

    asked = {"actor": actor, "verb": verb, "object": thing, "outcome": outcome, "address": address}
    equal = {name: value for name, value in asked.items() if value}
    newest = after is None and not equal
    page = link.ask(lambda client: client.audit(after=after or 0, limit=limit, verify=verify, newest=newest, **equal))
    if verify:
        return checked(page, form)
    click.echo(listing_text(LISTING, [line.as_dict() for line in page.lines], form), nl=False)
    if page.next:
        say(f"more lines follow; see: rainbow audit --after {page.next}")
    return 0


def checked(page: AuditLog, form: str) -> int:
    """Say whether the chain holds; the exit code."""
    from rainbow_sched.cli.shell.messages import say

    last = page.lines[-1].digest if page.lines else ""
    if form in MACHINE:
        found: dict[str, object] = {"verified": page.verified, "count": page.count}
        found |= {"digest": last} if page.verified else {"broken_at": page.broken_at}
        click.echo(document_text({"schema": "rainbow.audit-check/1", **found}, form), nl=False)
    elif page.verified:
        click.echo(f"{page.count} lines, the chain holds; digest of the newest: {last or '-'}")
    else:
        say(f"the chain breaks at line {page.broken_at} of {page.count}: it or what follows was changed")
    return 0 if page.verified else 1

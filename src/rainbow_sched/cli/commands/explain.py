"""`rainbow explain`: why a job is where it is, and the same decision computed again."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import ExplanationInfo

EPILOG = """\b
NOW it fits at this moment, LATER when something ends or comes back, NEVER on this
graph; SKIP the cluster takes no work. Reasons are computed now; the decision is the
stored one.

\b
Examples:
  rainbow explain 122
  rainbow explain last -v
  rainbow explain 122 --replay     compute the decision again from its record alone
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@click.option("-v", "--verbose", is_flag=True, help="Also the candidates with bids and scores, and the timeline.")
@click.option("--replay", "again", is_flag=True, help="Compute the stored decision again and compare.")
@document_output()
@connected
def explain(link: Link, job: str, verbose: bool, again: bool, form: str) -> int:
    """Say why JOB (an id, a name, or last) is where it is: what each cluster lacks, and what would help."""
    from rainbow_sched.cli.render import explanation
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.render.terminal import columns

    async def asking(client: AsyncClient) -> ExplanationInfo:
        from rainbow_sched.cli.input.job_ids import only_one

        return await client.explain(await only_one(client, job))

    view = link.ask(asking).as_dict()
    outcome = _replayed(view) if again else None
    if form in MACHINE:
        document = {"schema": "rainbow.explain/1", **view, **({} if outcome is None else {"replay": outcome})}
        click.echo(document_text(document, form), nl=False)
    elif outcome is None:
        click.echo(explanation.explain(view, now=time.time(), verbose=verbose, limit=columns()), nl=False)
    else:
        same = "the same" if outcome["same"] else "NOT the same"
        click.echo(f"replayed: {outcome['winner'] or 'wait'}; stored: {outcome['stored'] or 'wait'}; {same}")
    return 0 if outcome is None or outcome["same"] else 1


def _replayed(view: dict[str, Any]) -> dict[str, Any]:
    """The stored decision against the one that its record gives when it is decided again."""
    from rainbow_sched.model.decision import Decision
    from rainbow_sched.model.errors import NotFound
    from rainbow_sched.selection.policies import installed
    from rainbow_sched.selection.replay import replay

    if not view.get("decision"):
        raise NotFound(f"job {view['job']['id']} was never decided; there is nothing to replay")
    stored = Decision.from_record(view["decision"])
    computed = replay(json.dumps(view["decision"]), installed())
    same = computed.record["outcome"] == stored.record["outcome"] and computed.ranked == stored.ranked
    return {"winner": computed.winner, "stored": stored.winner, "same": same}

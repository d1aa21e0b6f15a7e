"""`rainbow explain`: explain the state of a job, or replay its decision."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from rainbow_sched.cli.input.job_ids import resolve_one
from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.render.listings import print_document
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.jobs import ExplanationInfo, JobClient

EPILOG = """\b
NOW: the job fits. LATER: it fits when other jobs end or nodes return. NEVER: it does not
fit this cluster. SKIP: the cluster accepts no jobs. Reasons are current; the decision is
the stored one.

\b
Examples:
  rainbow explain 122
  rainbow explain last -v
  rainbow explain 122 --replay     compute the decision again from its record
"""


@click.command(epilog=EPILOG)
@click.argument("job")
@click.option("-v", "--verbose", is_flag=True, help="Also show candidates with bids and scores, and the timeline.")
@click.option("--replay", "again", is_flag=True, help="Compute the stored decision again and compare.")
@document_output()
@connected
def explain(connector: Connector, job: str, verbose: bool, again: bool, format: str) -> int:
    """Explain the state of JOB (an id, a name, or last): what each cluster lacks, and which changes would help."""
    from rainbow_sched.cli.render import decisions
    from rainbow_sched.cli.render.terminal import columns

    async def get_explanation(client: JobClient) -> ExplanationInfo:
        return await client.explain(await resolve_one(client, job))

    view = connector.call_jobs(get_explanation).as_dict()
    outcome = _replayed(view) if again else None

    def text() -> str:
        if outcome is None:
            return decisions.explain(view, now=time.time(), verbose=verbose, limit=columns())
        same = "the same" if outcome["same"] else "NOT the same"
        return f"replayed: {outcome['winner'] or 'wait'}; stored: {outcome['stored'] or 'wait'}; {same}\n"

    print_document("rainbow.explain/1", view | ({"replay": outcome} if outcome else {}), format, text)
    return 0 if outcome is None or outcome["same"] else 1


def _replayed(view: dict[str, Any]) -> dict[str, Any]:
    """Replay the stored decision and compare the results."""
    from rainbow_sched.model.decision import Decision
    from rainbow_sched.model.errors import NotFound
    from rainbow_sched.selection.decisions import replay
    from rainbow_sched.selection.policies import installed

    if not view.get("decision"):
        raise NotFound(f"job {view['job']['id']} has no decision to replay")
    stored = Decision.from_record(view["decision"])
    computed = replay(json.dumps(view["decision"]), installed())
    same = computed.record["outcome"] == stored.record["outcome"] and computed.ranked == stored.ranked
    return {"winner": computed.winner, "stored": stored.winner, "same": same}

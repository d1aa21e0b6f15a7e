"""`rainbow plan`: where a job would go, and why, without submitting it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import Asked, WithCommand, asks
from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.shell.connect import Link, connected

if TYPE_CHECKING:
    from rainbow_sched.client import AsyncClient
    from rainbow_sched.client.views import PlanInfo

EPILOG = """\b
Exit code: 0 it fits now; 75 something could run it later; 3 nothing ever could.

\b
Examples:
  rainbow plan -N4 -g1 -t 30m --software lammps -- lmp
  rainbow plan --prefer cost job.sh
  rainbow plan -N8 -o json -- true | jq .decision.ranked
"""


@click.command(cls=WithCommand, epilog=EPILOG)
@asks
@document_output()
@connected
def plan(link: Link, asked: Asked, form: str) -> int:
    """Show every cluster's verdict on a job, the one that would be chosen, and why not the others.

    Takes what rainbow submit takes, and submits nothing.
    """
    from rainbow_sched.cli.input.cluster_names import need_clusters
    from rainbow_sched.cli.input.job_request import prepare
    from rainbow_sched.cli.render import plan as render_plan
    from rainbow_sched.cli.render.listings import MACHINE, document_text
    from rainbow_sched.cli.render.terminal import columns
    from rainbow_sched.model.decision import Decision

    prepared = prepare(asked, time.time(), os.environ)

    async def asking(client: AsyncClient) -> tuple[PlanInfo, dict[str, str]]:
        await need_clusters(client, prepared.submission.terms)
        return await client.plan(prepared.submission), await managers(client)

    view, known = link.ask(asking)
    decision = Decision.from_record(view.decision)
    if form in MACHINE:
        document = {"schema": "rainbow.plan/1", "decision": view.decision, "explanations": list(view.explanations)}
        click.echo(document_text(document, form), nl=False)
    else:
        text = render_plan.plan(
            decision,
            view.explanations,
            request=prepared.request,
            now=time.time(),
            managers=known,
            source=prepared.source,
            limit=columns(),
        )
        click.echo(text, nl=False)
    return int(render_plan.exit_code(decision))


async def managers(client: AsyncClient) -> dict[str, str]:
    """What runs jobs on each cluster; nothing for a caller who may not list them."""
    from rainbow_sched.model.errors import Denied, Unauthenticated

    try:
        return {cluster.name: cluster.manager for cluster in await client.clusters()}
    except (Denied, Unauthenticated):
        return {}

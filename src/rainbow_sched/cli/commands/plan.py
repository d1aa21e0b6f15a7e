"""`rainbow plan`: show where a job would run, without submitting it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from rainbow_sched.cli.input.job_options import JobCommand, JobOptions, job_options
from rainbow_sched.cli.input.options import document_output
from rainbow_sched.cli.render.listings import print_document
from rainbow_sched.cli.shell.connect import Connector, connected

if TYPE_CHECKING:
    from rainbow_sched.client.async_client import AsyncClient
    from rainbow_sched.client.jobs import PlanInfo

EPILOG = """\b
Exit code: 0 the job fits now; 75 a cluster can run it later; 3 no cluster ever can.

\b
Examples:
  rainbow plan -N4 -g1 -t 30m --software lammps -- lmp
  rainbow plan --prefer cost job.sh
  rainbow plan -N8 -o json -- true | jq .decision.ranked
"""


@click.command(cls=JobCommand, epilog=EPILOG)
@job_options
@document_output()
@connected
def plan(connector: Connector, options: JobOptions, format: str) -> int:
    """Show which cluster would be chosen for a job, and why not the others.

    Takes the options of rainbow submit, and submits nothing.
    """
    from rainbow_sched.cli.input.job_request import check_clusters, prepare
    from rainbow_sched.cli.render import decisions
    from rainbow_sched.cli.render.terminal import columns
    from rainbow_sched.model.decision import Decision

    prepared = prepare(options, time.time(), os.environ)

    async def get_plan(client: AsyncClient) -> tuple[PlanInfo, dict[str, str]]:
        await check_clusters(client, prepared.submission.terms)
        return await client.plan(prepared.submission), await managers(client)

    view, known = connector.call(get_plan)
    decision = Decision.from_record(view.decision)

    def text() -> str:
        return decisions.plan(
            decision,
            view.explanations,
            request=prepared.request,
            now=time.time(),
            managers=known,
            source=prepared.source,
            limit=columns(),
        )

    document = {"decision": view.decision, "explanations": list(view.explanations)}
    print_document("rainbow.plan/1", document, format, text)
    return int(decisions.exit_code(decision))


async def managers(client: AsyncClient) -> dict[str, str]:
    """Return the manager of each cluster; empty if the caller may not list clusters."""
    from rainbow_sched.model.errors import Denied, Unauthenticated

    try:
        return {cluster.name: cluster.manager for cluster in await client.clusters()}
    except (Denied, Unauthenticated):
        return {}

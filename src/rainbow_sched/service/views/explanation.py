"""Plan a job without storing it, and explain a stored one."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.decision import Decision
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.job import Event
from rainbow_sched.model.job_state import JobState
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.decisions import decide
from rainbow_sched.service.access.principals import reach
from rainbow_sched.service.agents.host_binding import (
    NOT_ENFORCED,
    clusters_without_placement,
    has_several_parts,
)
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.core import Core
from rainbow_sched.service.lifecycle import MAX_EVENTS_PER_READ
from rainbow_sched.service.scheduling.loop import excluded_clusters
from rainbow_sched.service.scheduling.plan import PlacementQuery, exclusions, question_with_bids
from rainbow_sched.service.views.jobs import JobWithAttempt, view_of, visible
from rainbow_sched.store.base import Tx

SCHEMA = "rainbow.explanations/1"


async def plan(core: Core, query: PlacementQuery, *, reasons: bool) -> tuple[Decision, str]:
    """Decide as submit would, with bids if the policy wants them; store nothing. Return also the reasons, as JSON."""
    decision = decide(await question_with_bids(core, query), core.policies)
    return decision, explanations(core, query) if reasons else ""


def explanations(core: Core, query: PlacementQuery) -> str:
    """Return every cluster's reasons at this moment as JSON."""
    fleet = core.fleet
    hidden, refused, closed = exclusions(core, query)
    fitting = fleet.graphs.match(query.request).ever if has_several_parts(query.request) else ()
    unplaceable = clusters_without_placement(fleet, query.request, fitting)
    out = {**{name: why for name, (_, why) in {**unplaceable, **refused}.items()}, **closed}
    seen = [name for name in fleet.names() if name not in hidden]
    names = [name for name in seen if name not in out]
    found = [
        {**explanation.to_json(), **_nodes(fleet, explanation.verdict.cluster, query.request)}
        for explanation in fleet.graphs.explain(query.request, names)
    ]
    shown = {"schema": SCHEMA, "clusters": found, "closed": {name: out[name] for name in seen if name in out}}
    return json.dumps(shown, allow_nan=False)


def _nodes(fleet: Fleet, cluster: str, request: PreparedRequest) -> dict[str, object]:
    """Return on which hosts the request may run, and whether that is enforced."""
    found: dict[str, object] = {}
    row = fleet.member(cluster).cluster
    if row.wrong_nodes:
        found["wrong_nodes"] = row.wrong_nodes
    if not request.may_bind:
        return found
    if row.node_rules is None:
        return {**found, "nodes": NOT_ENFORCED}
    binding = fleet.graphs.binding(cluster, request)
    hosts = binding.hosts if binding.by_group else fleet.graphs.concrete_hosts(cluster, request)
    if hosts:
        found["groups"] = len(request.request.groups)
        found["hosts"] = [{"group": entry.group, "hosts": collapse(entry.hosts)} for entry in hosts]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobExplanation:
    """A job with its decision, events and current reasons."""

    view: JobWithAttempt
    decision: str  # JSON of the last one; empty: none yet
    explanations: str
    events: list[Event]
    evaluations: int  # including the tries of its shape group
    evaluated_at: float | None


async def explain(core: Core, id: int, by: Principal) -> JobExplanation:
    """Return the stored decision of a job, its events, and how the clusters fit now."""
    who = reach(by, "read")

    def work(tx: Tx) -> tuple[JobWithAttempt, str, list[Event]]:
        view, stored = view_of(tx, visible(tx, id, who)), tx.decision(id)
        record = stored.decision().to_json() if stored is not None else ""
        return view, record, tx.events(0, MAX_EVENTS_PER_READ, job=id)

    view, record, events = await core.store.read(work)
    job = view.job
    excluded = {} if job.state.terminal or job.state is JobState.BOUND else await excluded_clusters(core, job)
    query = PlacementQuery(request=core.request_of(job.spec), terms=job.terms, owner=job.owner, excluded=excluded)
    tries, tried_at = core.pending.tries(id)
    return JobExplanation(
        view=view,
        decision=record,
        explanations=explanations(core, query),
        events=events,
        evaluations=job.evaluations + tries,
        evaluated_at=tried_at or job.evaluated_at,
    )

"""Why: plan a job without storing it, and explain one that is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass

from rainbow_sched.model.credential import Principal
from rainbow_sched.model.decision import Decision
from rainbow_sched.model.hostlist import collapse
from rainbow_sched.model.job import Event, Job, JobState
from rainbow_sched.model.request import Request
from rainbow_sched.selection.decide import decide
from rainbow_sched.service.access.principals import reach
from rainbow_sched.service.agents.host_binding import NOT_ENFORCED, apart, one_group_only, parted, unkept
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.rules import barred
from rainbow_sched.service.lifecycle import MOST_EVENTS
from rainbow_sched.service.scheduling.loop import Decider
from rainbow_sched.service.scheduling.question import Ask, opens
from rainbow_sched.service.views.jobs import JobView, visible
from rainbow_sched.store.base import Tx

SCHEMA = "rainbow.explanations/1"


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to a job."""

    decision: Decision
    explanations: str  # JSON


async def plan(decider: Decider, ask: Ask, *, reasons: bool) -> Plan:
    """Decide as submit would, with bids when the policy wants them; store nothing."""
    asked = await decider.asked(ask)
    decision = decide(asked, decider.core.policies)
    return Plan(decision, explanations(decider, ask) if reasons else "")


def explanations(decider: Decider, ask: Ask) -> str:
    """Every cluster's reasons at this moment, as JSON; clusters that take no work say why instead."""
    fleet = decider.core.fleet
    hidden, refused = barred(decider.core, ask.owner, ask.request, signed=bool(ask.terms.signature))
    open_ones = [name for name in fleet.names() if name not in hidden and opens(fleet, ask.terms, name)]
    fitting = fleet.graphs.match(ask.request).ever if parted(ask.request) else ()
    unsaid = {**apart(fleet, ask.request, fitting), **one_group_only(fleet, ask.request)}
    refused = {**unsaid, **unkept(fleet, ask.request), **refused}
    out = {**ask.excluded, **{name: why for name, (_, why) in refused.items()}, **fleet.closed()}
    closed = {name: out[name] for name in open_ones if name in out}
    names = [name for name in open_ones if name not in closed]
    found = [
        {**explanation.to_json(), **_nodes(fleet, explanation.verdict.cluster, ask.request)}
        for explanation in fleet.graphs.explain(ask.request, names)
    ]
    return json.dumps({"schema": SCHEMA, "clusters": found, "closed": closed}, allow_nan=False)


def _nodes(fleet: Fleet, cluster: str, request: Request) -> dict[str, object]:
    """Where on the cluster the request may run, and what is known of whether that is kept."""
    found: dict[str, object] = {}
    row = fleet.member(cluster).cluster
    if row.wrong_nodes:
        found["wrong_nodes"] = row.wrong_nodes
    if not fleet.may_bind(request):
        return found
    if row.node_rules is None:
        return {**found, "nodes": NOT_ENFORCED}
    binding = fleet.graphs.binding(cluster, request)
    hosts = binding.hosts if binding.by_group else fleet.graphs.concrete_hosts(cluster, request)
    if hosts:
        found["groups"] = len(request.groups)
        found["hosts"] = [{"group": entry.group, "hosts": collapse(entry.hosts)} for entry in hosts]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A job with everything that explains it."""

    view: JobView
    decision: str  # JSON of the last one; empty: never decided
    explanations: str
    events: list[Event]
    evaluations: int  # how often it was decided, counting the tries of its pile
    evaluated_at: float | None


async def explain(decider: Decider, id: int, by: Principal) -> Story:
    """The stored decision of a job, what happened to it, and how the fleet looks to it now."""
    core, who = decider.core, reach(by, "read")

    def work(tx: Tx) -> tuple[Job, JobView, str, list[Event]]:
        job = visible(tx, id, who)
        view = JobView(job, tx.attempt(id, job.attempt) if job.attempt else None)
        stored = tx.decision(id)
        return job, view, stored.decision().to_json() if stored is not None else "", tx.events(0, MOST_EVENTS, job=id)

    job, view, record, events = await core.store.read(work)
    excluded = {} if job.state.terminal or job.state is JobState.BOUND else await decider.excluded(job)
    ask = Ask(request=core.request_of(job.spec), spec=job.spec, terms=job.terms, owner=job.owner, excluded=excluded)
    tries, tried_at = core.shelf.tries(id)
    return Story(
        view=view,
        decision=record,
        explanations=explanations(decider, ask),
        events=events,
        evaluations=job.evaluations + tries,
        evaluated_at=tried_at or job.evaluated_at,
    )

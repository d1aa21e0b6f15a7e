"""Build the question of one decision: match the fleet and gather what the policy looks at. Read-only.

`plan`, `submit`, the prototype's calls and the scheduling loop share these functions.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from rainbow_sched.graphs.backend import GraphBackend
from rainbow_sched.model.bid import Bid
from rainbow_sched.model.candidate import Candidate
from rainbow_sched.model.job import Terms
from rainbow_sched.model.match import Fit, Matches
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.selection.candidate_set import CandidateSet
from rainbow_sched.selection.decisions import MAX_REASONS
from rainbow_sched.selection.question import NO_MISFITS, Question
from rainbow_sched.service.agents.host_binding import (
    clusters_limited_to_one_group,
    clusters_without_binding,
    clusters_without_placement,
    mixed_reason,
)
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.clusters.rules import ClusterRefusals, apply_rules
from rainbow_sched.service.core import Core

NONE: Mapping[str, str] = MappingProxyType({})
NO_BIDS: Mapping[str, Bid] = MappingProxyType({})


class PlacementQuery(NamedTuple):
    """A request with its terms, to be placed on the fleet."""

    request: PreparedRequest
    terms: Terms
    owner: str = ""  # of the job
    seed: int = 0
    excluded: Mapping[str, str] = NONE  # clusters with the reason
    bids: Mapping[str, Bid] = NO_BIDS
    silent: Mapping[str, str] = NONE  # why a cluster that was asked gave no bid
    show_slots: bool = False  # count how many slots would fit


def exclusions(core: Core, query: PlacementQuery) -> tuple[frozenset[str], ClusterRefusals, Mapping[str, str]]:
    """Return the clusters that a job cannot get, whatever they have free.

    They are hidden from its owner, refuse it, or take no work now; hidden ones are not among the others.
    """
    fleet, request = core.fleet, query.request
    hidden = frozenset[str]()
    if query.terms.opened:
        hidden = frozenset(name for name in fleet.names() if not opens(fleet, query.terms, name))
    refused: ClusterRefusals = {}
    if fleet.rules:
        hidden_by_rules, refused = apply_rules(core, query.owner, request, signed=bool(query.terms.signature))
        hidden |= hidden_by_rules
    limited = clusters_limited_to_one_group(fleet, request)
    refused = {**limited, **clusters_without_binding(fleet, request), **refused}
    closed = fleet.closed()
    if query.excluded:
        closed = {**closed, **{name: why for name, why in query.excluded.items() if fleet.get(name) is not None}}
    if hidden:
        closed = {name: why for name, why in closed.items() if name not in hidden}
        refused = {name: why for name, why in refused.items() if name not in hidden}
    return hidden, refused, closed


def build_question(core: Core, query: PlacementQuery) -> Question:
    """Return everything that one decision depends on, at this moment."""
    fleet, now = core.fleet, core.clock.now()
    hidden, refused, closed = exclusions(core, query)
    out = hidden | closed.keys() | refused.keys() if hidden or closed or refused else hidden
    matches = _matches(fleet.graphs, fleet, query.request, out)
    if unplaceable := clusters_without_placement(fleet, query.request, matches.ever):
        refused = {**unplaceable, **refused}
        matches = _matches(fleet.graphs, fleet, query.request, out | unplaceable.keys())
    criteria = core.criteria.of(query.request, query.terms, core.settings)
    count = query.show_slots or core.policies.wants_slots(criteria.policy, criteria.options)
    ever, names = matches.ever, matches.names
    if count or query.bids or query.silent:
        candidates = CandidateSet([_candidate(name, matches, fleet, query) for name in ever], fleet.fleet_parts)
    else:
        candidates = fleet.candidates(matches)
    misfits = NO_MISFITS
    if refused or closed or len(ever) < len(names):
        misfits = {**refused, **{name: (Fit.UNKNOWN, why) for name, why in closed.items()}}
        fitting = set(ever)
        misfits.update((name, (matches.fit(name), "")) for name in names if name not in fitting)
        if query.request.may_bind:
            misfits.update(
                _mixed_reasons(fleet, query.request, [name for name in names if matches.fit(name) is Fit.NEVER])
            )
    return Question(criteria, candidates, misfits, query.seed, fleet.version, now)


def _mixed_reasons(fleet: Fleet, request: PreparedRequest, names: Collection[str]) -> ClusterRefusals:
    """Return the clusters that could run the request if their manager could be given more constraints."""
    found: ClusterRefusals = {}
    for name in names:
        if len(found) < MAX_REASONS and (why := mixed_reason(fleet, name, request)):
            found[name] = (Fit.NEVER, why)
    return found


def opens(fleet: Fleet, terms: Terms, name: str) -> bool:
    """Return True if the credential behind these terms covers the cluster that has this name now."""
    if not terms.opened or any(fnmatch.fnmatchcase(name, pattern) for pattern in terms.opened):
        return True
    member = fleet.get(name)
    return member is not None and f"{name}@{member.cluster.id}" in terms.opened


def pinned(fleet: Fleet, terms: Terms) -> Terms:
    """Return the terms with `NAME@ID` for each covered cluster, so that a later cluster of that name is not covered."""
    if not terms.opened:
        return terms
    members = {name: fleet.get(name) for name in terms.opened}
    return replace(
        terms, opened=tuple(f"{name}@{member.cluster.id}" if member else name for name, member in members.items())
    )


def unpinned(name: str) -> str:
    """Return the name of a cluster that `pinned` may have bound to an id."""
    return name.partition("@")[0]


def _matches(graphs: GraphBackend, fleet: Fleet, request: PreparedRequest, closed: Collection[str]) -> Matches:
    if not closed:
        return graphs.match(request)
    return graphs.match(request, [name for name in fleet.names() if name not in closed])


def _candidate(name: str, matches: Matches, fleet: Fleet, query: PlacementQuery) -> Candidate:
    """Return one cluster with its slots counted and its bid, if it was asked."""
    verdict = matches.verdict(name)
    return fleet.candidate(
        name,
        verdict.fit,
        slots_now=verdict.slots_now,
        slots_ever=verdict.slots_ever,
        bid=query.bids.get(name),
        no_bid=query.silent.get(name, ""),
    )

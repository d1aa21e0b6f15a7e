"""From a request to a decision: match the fleet, gather what policies look at, choose.

Nothing here writes. The same functions serve `plan`, `submit`, the prototype's calls and
jobs that wait to be decided again.
"""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from rainbow.graphs.backend import GraphBackend
from rainbow.model.bid import Bid
from rainbow.model.candidate import Candidate, Limits
from rainbow.model.job import Terms
from rainbow.model.lineup import Lineup
from rainbow.model.match import Fit, Matches
from rainbow.model.remembered import Remembered
from rainbow.model.request import Request
from rainbow.scheduler.decide import Question
from rainbow.service.core import Core
from rainbow.service.fleet import Fleet
from rainbow.service.ruling import Refused, barred
from rainbow.service.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question to the fleet."""

    request: Request
    spec: str  # its canonical JSON
    terms: Terms = field(default_factory=Terms)
    owner: str = ""  # whose job it is; clusters may care
    excluded: Mapping[str, str] = field(default_factory=dict)  # clusters that are out, with the reason
    seed: int = 0
    bids: Mapping[str, Bid] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)  # clusters asked for a bid that gave none: why
    show_slots: bool = False  # count how many slots would fit, for people; some policies look at it, too


def question(core: Core, ask: Ask) -> Question:
    """All that one decision depends on, as it is at this moment."""
    fleet, settings, now = core.fleet, core.settings, core.clock.now()
    hidden = _hidden(fleet, ask.terms)
    refused: Refused = {}
    if fleet.rules:
        unseen, refused = barred(core, ask.owner, ask.request, signed=bool(ask.terms.signature))
        hidden |= unseen
    closed = fleet.closed()
    if ask.excluded:
        closed = {**closed, **{name: why for name, why in ask.excluded.items() if fleet.get(name) is not None}}
    if hidden:
        closed = {name: why for name, why in closed.items() if name not in hidden}
        refused = {name: why for name, why in refused.items() if name not in hidden}
    out = hidden | closed.keys() | refused.keys() if hidden or closed or refused else hidden
    matches = _matches(fleet.graphs, fleet, ask.request, out)
    policy, options = policy_of(settings, ask.terms)
    count = ask.show_slots or core.policies.wants_slots(policy, options)
    ever, asked = matches.ever, matches.names
    if count or ask.bids or ask.silent:
        candidates = Lineup([_candidate(name, matches, fleet, ask) for name in ever])
    else:
        candidates = fleet.lineup(matches)
    misfits: dict[str, tuple[Fit, str]] = {**refused}
    if closed:
        misfits.update((name, (Fit.UNKNOWN, why)) for name, why in closed.items())
    if len(ever) < len(asked):
        fitting = set(ever)
        misfits.update((name, (matches.fit(name), "")) for name in asked if name not in fitting)
    return Question(
        candidates=candidates,
        demand=fleet.demand_of(ask.request),
        policy=policy,
        options=options,
        limits=limits_of(ask.terms),
        misfits=misfits,
        request_hash=hash_of(ask.spec),
        seed=ask.seed,
        snapshot=fleet.version,
        now=now,
        stale_after=settings.stale_after,
    )


hash_of = Remembered(lambda spec: hashlib.sha256(spec.encode()).hexdigest())


def _hidden(fleet: Fleet, terms: Terms) -> frozenset[str]:
    """Clusters that the job's credential does not open: for its owner they do not exist."""
    return frozenset(name for name in fleet.names() if not opens(fleet, terms, name)) if terms.opened else frozenset()


def opens(fleet: Fleet, terms: Terms, name: str) -> bool:
    """True if the credential behind these terms opens the cluster that has this name now."""
    if not terms.opened or any(fnmatch.fnmatchcase(name, pattern) for pattern in terms.opened):
        return True
    member = fleet.get(name)
    return member is not None and f"{name}@{member.cluster.id}" in terms.opened


def pinned(fleet: Fleet, terms: Terms) -> Terms:
    """The terms of a job with `NAME@ID` for each cluster opened by its name.

    Whoever registers a name after its cluster was deleted must not get the jobs that waited for the old one.
    """
    if not terms.opened:
        return terms
    members = {name: fleet.get(name) for name in terms.opened}
    return replace(
        terms, opened=tuple(f"{name}@{member.cluster.id}" if member else name for name, member in members.items())
    )


def unpinned(name: str) -> str:
    """The name that was given, of one that `pinned` may have bound to a cluster."""
    return name.partition("@")[0]


def _matches(graphs: GraphBackend, fleet: Fleet, request: Request, closed: Collection[str]) -> Matches:
    if not closed:
        return graphs.match(request)
    return graphs.match(request, [name for name in fleet.names() if name not in closed])


def _candidate(name: str, matches: Matches, fleet: Fleet, ask: Ask) -> Candidate:
    """One cluster with its slots counted and its answer when it was asked for a bid."""
    verdict = matches.verdict(name)
    return fleet.candidate(
        name,
        verdict.fit,
        slots_now=verdict.slots_now,
        slots_ever=verdict.slots_ever,
        bid=ask.bids.get(name),
        no_bid=ask.silent.get(name, ""),
    )


def policy_of(settings: Settings, terms: Terms) -> tuple[str, Mapping[str, str]]:
    """The policy that a job names, with its own options; else the server's."""
    if terms.policy:
        same = terms.policy == settings.policy and not terms.policy_options
        return terms.policy, settings.policy_options if same else terms.policy_options
    return settings.policy, settings.policy_options


def _limits(terms: Terms) -> Limits:
    """What the job's owner allows, as the decision takes it."""
    prefer = terms.prefer
    return Limits(
        deadline=terms.deadline,
        max_cost=terms.max_cost,
        only=frozenset(terms.only_clusters),
        never=frozenset(terms.not_clusters),
        prefer="start" if prefer == "start" else "cost" if prefer == "cost" else "",
        later=terms.later,
        otherwise="refuse" if terms.fail_fast else "wait",
    )


limits_of = Remembered(_limits)

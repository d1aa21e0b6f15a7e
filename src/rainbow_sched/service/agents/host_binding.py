"""The hosts to which jobs are bound: what offers and bid requests carry, and which agents keep jobs there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rainbow_sched.model.binding import HOST, NO_NODE_RULES, GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.group_merge import merge_groups
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.match import Fit
from rainbow_sched.model.reasons import MixedHosts
from rainbow_sched.model.request import Level, Request
from rainbow_sched.service.clusters.fleet import Fleet

MAX_NODES_TEXT = 256 * 1024  # characters of a report's hostlist
MAX_NODES = 100_000  # names in it
NOT_KEPT = "its agent does not keep jobs on nodes; upgrade it"
NOT_ENFORCED = "no agent: which nodes it runs on is not enforced there"
NOT_TOLD_APART = "its parts need different hosts, and no manager can be told which part goes where; submit them as jobs"
NO_PLACEMENT = "its groups are bound to different hosts, and no placement of all of them was found; submit them as jobs"


@dataclass(frozen=True, slots=True)
class BoundOffer:
    """The hosts that an offer carries, or why it cannot be made."""

    hosts: tuple[GroupHosts, ...] = ()
    refusal: str = ""
    size: int = 0  # characters of the hostlists


UNBOUND_OFFER = BoundOffer()


def clusters_without_binding(fleet: Fleet, request: Request) -> dict[str, tuple[Fit, str]]:
    """The clusters on which the request is bound to hosts and whose agents do not keep jobs on them."""
    if not fleet.unbinding or not fleet.may_bind(request):
        return {}
    found = {}
    for name in sorted(fleet.unbinding):
        member = fleet.get(name)
        if member is not None and not member.broken and fleet.graphs.binding(name, request).binds:
            found[name] = (Fit.UNKNOWN, NOT_KEPT)
    return found


def clusters_limited_to_one_group(fleet: Fleet, request: Request) -> dict[str, tuple[Fit, str]]:
    """The clusters whose managers cannot be given a request of so many groups, by their agents' word."""
    if len(request.groups) == 1:
        return {}
    found = {}
    for name in fleet.names():
        member = fleet.member(name)
        rules = member.cluster.node_rules
        if rules is None or not rules.one_group or member.broken:
            continue
        why = rules.one_group
        if rules.merges:
            why = merge_groups(request, _hosts_by_group(fleet, name, request)).refusal
            why = f"{rules.one_group}, and {why}" if why else ""
        if why:
            found[name] = (Fit.NEVER, f"the job has {len(request.groups)} groups of resources; {why}")
    return found


def _hosts_by_group(fleet: Fleet, cluster: str, request: Request) -> dict[int, tuple[str, ...]]:
    """The hosts that an offer to an agent that takes one group would carry."""
    if not fleet.may_bind(request):
        return {}
    binding = fleet.graphs.binding(cluster, request)
    hosts = binding.hosts if binding.uniform else fleet.graphs.concrete_hosts(cluster, request)
    return {entry.group: entry.hosts for entry in hosts}


def clusters_without_placement(fleet: Fleet, request: Request, names: Iterable[str]) -> dict[str, tuple[Fit, str]]:
    """Of these clusters those where the parts of a group need different hosts, which no offer can say."""
    if not fleet.may_bind(request) or not has_several_parts(request):
        return {}
    return {
        name: (Fit.NEVER, NOT_TOLD_APART)
        for name in names
        if not fleet.graphs.binding(name, request).by_group and not fleet.graphs.concrete_hosts(name, request)
    }


def has_several_parts(request: Request) -> bool:
    """True if a group of the request has several parts, which may need different hosts."""
    return any(_has_parts(group.levels) for group in request.groups)


def _has_parts(levels: tuple[Level, ...]) -> bool:
    """True if levels may lie in hosts that have nothing to do with one another."""
    return len(levels) > 1 or any(level.type != HOST and _has_parts(level.inside) for level in levels)


def mixed_reason(fleet: Fleet, cluster: str, request: Request) -> str:
    """Why a request that does not fit a cluster would fit if its manager could be told more; else empty."""
    if not fleet.may_bind(request) or not fleet.graphs.binding(cluster, request).mixed:
        return ""
    [explained] = fleet.graphs.explain(request, [cluster])
    return "; ".join(reason.sentence() for reason in explained.reasons if reason.tag == MixedHosts.tag)


def bound_offer(fleet: Fleet, cluster: str, request: Request, rules: NodeRules | None, fence: str = "") -> BoundOffer:
    """What an offer of the request carries to an agent that announced `rules` (None: nothing).

    `fence`: the attempt for which the cluster has set something aside.
    """
    if not fleet.may_bind(request):
        return UNBOUND_OFFER
    rules = rules or NO_NODE_RULES
    binding = fleet.graphs.binding(cluster, request)
    if binding.binds and not rules.hosts:
        return BoundOffer(refusal=NOT_KEPT)
    if binding.impossible:
        return BoundOffer(refusal=binding.impossible)
    if fleet.graphs.match(request, [cluster]).fit(cluster) is Fit.NEVER:  # the graph changed since the decision
        why = mixed_reason(fleet, cluster, request)
        return BoundOffer(refusal=why or "what meets its requirements there is no longer enough for it")
    if not binding.binds:
        return UNBOUND_OFFER
    hosts = binding.hosts
    if not (binding.uniform or (rules.groups and binding.by_group)):
        hosts = fleet.graphs.concrete_hosts(cluster, request, fence)
        if not hosts:
            return BoundOffer(refusal=NO_PLACEMENT if binding.by_group else NOT_TOLD_APART)
    try:
        size = sum(len(entry.hostlist) for entry in hosts)
    except Invalid as error:
        return BoundOffer(refusal=str(error))
    return BoundOffer(hosts, size=size)


@lru_cache(maxsize=1_024)
def nodes_of(text: str) -> tuple[str, ...]:
    """The nodes of a report's hostlist; what is none says nothing of where a job runs."""
    try:
        return tuple(dict.fromkeys(expand(text, limit=MAX_NODES)))
    except RainbowError:
        return ()

"""Bind jobs to hosts: what offers and bid requests carry, and which clusters cannot enforce it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from rainbow_sched.model.binding import HOST, NO_NODE_RULES, GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid, RainbowError
from rainbow_sched.model.group_merge import merge_groups
from rainbow_sched.model.hostlist import expand
from rainbow_sched.model.match import Fit
from rainbow_sched.model.prepared_request import PreparedRequest
from rainbow_sched.model.reasons import MixedHosts
from rainbow_sched.model.request import Level
from rainbow_sched.service.clusters.fleet import Fleet

MAX_HOSTLIST_CHARS = 256 * 1024  # of a report; bounds its memory
MAX_NODES = 100_000  # of a report; bounds the memory of its expanded list
NO_BINDING_SUPPORT = "its agent cannot bind jobs to nodes; upgrade it"
NOT_ENFORCED = "no agent: which nodes it runs on is not enforced there"
PARTS_NEED_DIFFERENT_HOSTS = (
    "its parts need different hosts, which no manager supports in one job; submit them as separate jobs"
)
NO_PLACEMENT = (
    "its groups are bound to different hosts, and no placement of all of them was found; submit them as separate jobs"
)


@dataclass(frozen=True, slots=True)
class BoundOffer:
    """The hosts that an offer carries, or why it cannot be made."""

    hosts: tuple[GroupHosts, ...] = ()
    refusal: str = ""
    size: int = 0  # characters of the hostlists


UNBOUND_OFFER = BoundOffer()


def clusters_without_binding(fleet: Fleet, request: PreparedRequest) -> dict[str, tuple[Fit, str]]:
    """Return the clusters where the request is bound to hosts and the agent cannot enforce that."""
    found: dict[str, tuple[Fit, str]] = {}
    if not request.may_bind:
        return found
    for name in sorted(fleet.without_binding):
        member = fleet.get(name)
        if member is not None and not member.broken and fleet.graphs.binding(name, request).binds:
            found[name] = (Fit.UNKNOWN, NO_BINDING_SUPPORT)
    return found


def clusters_limited_to_one_group(fleet: Fleet, request: PreparedRequest) -> dict[str, tuple[Fit, str]]:
    """Return the clusters whose manager cannot run several groups, as reported by their agents."""
    found = {}
    for name in fleet.names():
        member = fleet.member(name)
        rules = member.cluster.node_rules
        if rules is None or not rules.one_group or member.broken:
            continue
        why = rules.one_group
        if rules.merges:
            why = merge_groups(request.request, _hosts_by_group(fleet, name, request)).refusal
            why = f"{rules.one_group}, and {why}" if why else ""
        if why:
            found[name] = (Fit.NEVER, f"the job has {len(request.request.groups)} groups of resources; {why}")
    return found


def _hosts_by_group(fleet: Fleet, cluster: str, request: PreparedRequest) -> dict[int, tuple[str, ...]]:
    """Return the hosts that an offer to a one-group agent would carry."""
    if not request.may_bind:
        return {}
    binding = fleet.graphs.binding(cluster, request)
    hosts = binding.hosts if binding.uniform else fleet.graphs.concrete_hosts(cluster, request)
    return {entry.group: entry.hosts for entry in hosts}


def clusters_without_placement(
    fleet: Fleet, request: PreparedRequest, names: Iterable[str]
) -> dict[str, tuple[Fit, str]]:
    """Return the clusters where the parts of a group need different hosts, which no offer can express."""
    if not request.may_bind or not has_several_parts(request):
        return {}
    return {
        name: (Fit.NEVER, PARTS_NEED_DIFFERENT_HOSTS)
        for name in names
        if not fleet.graphs.binding(name, request).by_group and not fleet.graphs.concrete_hosts(name, request)
    }


def has_several_parts(request: PreparedRequest) -> bool:
    """Return True if a group of the request has several parts, which may need different hosts."""
    return any(_levels_have_parts(group.levels) for group in request.request.groups)


def _levels_have_parts(levels: tuple[Level, ...]) -> bool:
    """Return True if the levels may lie in independent hosts."""
    return len(levels) > 1 or any(level.type != HOST and _levels_have_parts(level.inside) for level in levels)


def mixed_reason(fleet: Fleet, cluster: str, request: PreparedRequest) -> str:
    """Return why the request would fit if the manager could be given more constraints; else empty."""
    if not request.may_bind or not fleet.graphs.binding(cluster, request).mixed:
        return ""
    [explained] = fleet.graphs.explain(request, [cluster])
    return "; ".join(reason.sentence() for reason in explained.reasons if reason.tag == MixedHosts.tag)


def bound_offer(
    fleet: Fleet, cluster: str, request: PreparedRequest, rules: NodeRules | None, fence: str = ""
) -> BoundOffer:
    """Return what an offer carries to an agent that announced `rules` (None: nothing).

    `fence`: the attempt for which resources are reserved.
    """
    if not request.may_bind:
        return UNBOUND_OFFER
    rules = rules or NO_NODE_RULES
    binding = fleet.graphs.binding(cluster, request)
    if binding.binds and not rules.hosts:
        return BoundOffer(refusal=NO_BINDING_SUPPORT)
    if binding.impossible:
        return BoundOffer(refusal=binding.impossible)
    if fleet.graphs.match(request, [cluster]).fit(cluster) is Fit.NEVER:  # the graph has changed
        why = mixed_reason(fleet, cluster, request)
        return BoundOffer(refusal=why or "the hosts that meet its requirements are no longer enough")
    if not binding.binds:
        return UNBOUND_OFFER
    hosts = binding.hosts
    if not (binding.uniform or (rules.groups and binding.by_group)):
        hosts = fleet.graphs.concrete_hosts(cluster, request, fence)
        if not hosts:
            return BoundOffer(refusal=NO_PLACEMENT if binding.by_group else PARTS_NEED_DIFFERENT_HOSTS)
    try:
        size = sum(len(entry.hostlist) for entry in hosts)
    except Invalid as error:
        return BoundOffer(refusal=str(error))
    return BoundOffer(hosts, size=size)


@lru_cache(maxsize=1_024)
def nodes_of(text: str) -> tuple[str, ...]:
    """Return the nodes of a reported hostlist; empty if it is invalid."""
    try:
        return tuple(dict.fromkeys(expand(text, limit=MAX_NODES)))
    except RainbowError:
        return ()

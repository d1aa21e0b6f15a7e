"""Convert a request to Flux's jobspec, with tag, environment and output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rainbow_sched.agent.backends.base import CannotBind
from rainbow_sched.agent.backends.common.host_binding import (
    bound_hosts,
    check_names,
    check_property,
    check_requirements,
)
from rainbow_sched.agent.backends.common.launches import chosen_options, copies
from rainbow_sched.agent.backends.flux.site import FluxSite
from rainbow_sched.discovery.flux import PROPERTIES, QUEUES
from rainbow_sched.model.binding import NAMING_FIELDS, GroupHosts, NodeRules, is_passed_on
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.group_merge import merge_groups
from rainbow_sched.model.request import Equals, Group, Level, Request, Task
from rainbow_sched.protocol.messages import ANY_HOST, AllowedHosts

ONE_GROUP = "a Flux jobspec V1 can describe only one kind of slot"
RULES = NodeRules(hosts=True, subsystems=frozenset({PROPERTIES, QUEUES}), one_group=ONE_GROUP, merges=True)
SITE = ("queue", "bank", "project")
SYNONYMS: Mapping[str, str] = {"partition": "queue", "account": "bank"}  # Slurm's names for the same
OWN = frozenset({"output", "error", "clusters"})  # handled by Rainbow, or not for Flux


@dataclass(frozen=True, slots=True)
class FluxRequest:
    """A request with only what a jobspec can express."""

    request: Request
    only: tuple[str, ...] = ()  # allowed nodes, checked again at the start; empty: any
    unknown: str = ""  # allowed hosts that Flux does not have, as a reason


def plain(
    request: Request, site: FluxSite, options: Mapping[str, str], allowed: AllowedHosts = ANY_HOST
) -> FluxRequest:
    """Return the request with only what a jobspec can express; raise `Unsupported` for what must not be dropped.

    Requirements on properties and queues become jobspec constraints; the allowed hosts enforce all others. Parameters
    were for the choice of the cluster. Levels that are not in this graph and may stand for the cluster are removed.
    `options` are those of the agent: defaults, and translations of values.
    """
    if len(request.tasks) != 1:
        raise Unsupported(f"Flux runs one task per job, in any number of copies; this request has {len(request.tasks)}")
    if request.image:
        raise Unsupported(f"this backend does not run container images ({request.image})")
    queues = _named(request, QUEUES)
    check_requirements(request, allowed, RULES, site.graph, "Flux")
    if len(request.groups) > 1:
        request, allowed = _one_group(request, allowed)
    groups = tuple(
        Group(levels=tuple(_bare(level) for level in group.levels), name=group.name) for group in request.groups
    )
    if len(groups) == 1 and len(groups[0].levels) == 1:
        groups = (replace(groups[0], levels=_inner(groups[0].levels, frozenset(site.graph.types))),)
    if len({*queues, *(request.options[key] for key in ("queue", "partition") if key in request.options)}) > 1:
        raise Unsupported(f"a job runs in one queue; this one requests {', '.join(queues)} and another")
    wanted = {**request.options, **({"queue": queues[0]} if queues else {})}
    asked = replace(
        request,
        groups=groups,
        requires=(),
        parameters={},
        properties=tuple(dict.fromkeys((*_known_properties(request, site, allowed), *_named(request, PROPERTIES)))),
        options=chosen_options(wanted, options, SITE, SYNONYMS, OWN, f"Flux has {', '.join(SITE)}"),
        tasks=(_task(request.tasks[0], copies(request, request.tasks[0]), groups[0].levels[0]),),
        ignored=(),
    )
    return _with_hosts(asked, site, allowed)


def _one_group(request: Request, allowed: AllowedHosts) -> tuple[Request, AllowedHosts]:
    """Return a request of several groups as one group on all their hosts; raise `Unsupported` if they differ."""
    hosts = {entry.group: entry.hosts for entry in allowed.groups}
    made = merge_groups(request, hosts, checked=allowed.checked)
    if made.refusal:
        raise Unsupported(f"the job has {len(request.groups)} groups of resources; {ONE_GROUP}, and {made.refusal}")
    bound = (GroupHosts(0, made.hosts),) if made.hosts else ()
    [task] = made.request.tasks
    if not (task.script or made.request.groups[0].levels[0].shared):  # on distinct nodes V1 counts tasks in total
        task = replace(task, total=copies(request, request.tasks[0]))
    return replace(made.request, tasks=(task,)), AllowedHosts(bound, allowed.checked)


def _known_properties(request: Request, site: FluxSite, allowed: AllowedHosts) -> Iterator[str]:
    """Yield the properties that Flux knows; the allowed hosts enforce the others."""
    known = {name for node in site.nodes for name in node.properties}
    for name in request.properties:
        bare = name.removeprefix("^")
        if bare in known or (name == bare and not allowed.checked):
            yield name
        else:
            check_property(bare, site.graph, allowed, "Flux")


def _with_hosts(request: Request, site: FluxSite, allowed: AllowedHosts) -> FluxRequest:
    """Return the request with its allowed hosts, by the names that Flux knows."""
    names = [node.name for node in site.nodes]
    nodes = set(names)
    check_names((*request.hosts, *request.not_hosts), nodes, site.graph, allowed)
    own = not allowed.checked or nodes.issuperset(request.hosts)  # racks are allowed by their nodes
    hosts, unknown = request.hosts if own else (), ""
    not_hosts = tuple(name for name in request.not_hosts if name in nodes)
    if bound := allowed.of(0):
        known, reason = bound_hosts(bound, names, "Flux")
        unknown = f"; {reason}" if reason else ""
        hosts = tuple(name for name in known if not hosts or name in hosts)
        if not set(hosts).difference(not_hosts):
            raise CannotBind(f"no node of this instance is among the hosts that the request allows{unknown}")
    only = tuple(name for name in hosts if name not in not_hosts)
    return FluxRequest(replace(request, hosts=hosts, not_hosts=not_hosts), only, unknown)


def _named(request: Request, subsystem: str) -> list[str]:
    """Return the names in the requirements on properties or queues."""
    found = []
    for one in (*request.requires, *(one for level in request.walk() for one in level.requires)):
        if one.subsystem == subsystem and is_passed_on(one, RULES):
            found += [str(term.value) for term in one.terms if isinstance(term, Equals) and term.field in NAMING_FIELDS]
    return found


def _task(task: Task, many: int, level: Level) -> Task:
    """Return the task; Flux starts at least one per node, and surplus ones exit at once (`files.py`)."""
    nodes = level.count.min if level.type == "node" and not level.shared else 0
    total = nodes if many < nodes else task.total
    return Task(command=task.command or ("true",), group=task.group, per_slot=task.per_slot, total=total)


def _bare(level: Level) -> Level:
    return replace(level, requires=(), inside=tuple(_bare(inner) for inner in level.inside))


def _inner(levels: tuple[Level, ...], types: frozenset[str]) -> tuple[Level, ...]:
    while len(levels) == 1 and levels[0].inside and levels[0].type != "node":
        level = levels[0]
        stands_for_all = level.type == "cluster" or (level.abstract and level.type not in types)
        if not stands_for_all or level.count.min != 1:
            break
        levels = level.inside
    return levels


def with_tag(
    document: Mapping[str, object], user: Mapping[str, object], output: Mapping[str, str]
) -> dict[str, object]:
    """Return the jobspec with Rainbow's attributes and its output in files.

    By default Flux ends a job 30 s after its first task has ended; here it ends with its last task.
    """
    attributes = document["attributes"]
    assert isinstance(attributes, Mapping)
    streams = {stream: {"type": "file", "path": path} for stream, path in output.items()}
    system = {**attributes["system"], "shell": {"options": {"output": streams, "exit-timeout": "none"}}}
    return {**document, "attributes": {**attributes, "system": system, "user": {"rainbow": dict(user)}}}

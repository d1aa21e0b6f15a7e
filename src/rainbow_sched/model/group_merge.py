"""Merge groups with equal slots into one group, for a manager that accepts only one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rainbow_sched.model.binding import HOST
from rainbow_sched.model.request import Count, Group, Level, Request


@dataclass(frozen=True, slots=True)
class MergedGroups:
    """The merged request and its hosts, or the reason why the groups cannot be merged."""

    request: Request
    hosts: tuple[str, ...] = ()  # empty: any host
    refusal: str = ""


def merge_groups(request: Request, hosts: Mapping[int, Sequence[str]], *, checked: bool = True) -> MergedGroups:
    """Merge all groups of a request, if one command runs in all slots and each group keeps its hosts.

    `hosts`: the allowed hosts by group; other groups may run on any host. `checked`: the hosts meet all requirements.
    """
    tops = [group.levels[0] for group in request.groups]
    names = {group.name for group in request.groups}
    if len(request.tasks) != 1 or (request.tasks[0].group in names and len(names) > 1):
        return MergedGroups(request, refusal="its tasks run in different groups")
    if any(len(group.levels) > 1 for group in request.groups) or {top.type for top in tops} != {HOST}:
        return MergedGroups(request, refusal="not all of its groups are nodes or slots within nodes")
    if any(not top.count.exact for top in tops) or len({_bare(_one(top)) for top in tops}) > 1:
        return MergedGroups(request, refusal="its groups have slots of different shapes")
    marked = tops[0].shared or any(level.label for level in tops[0].walk())
    if not marked and any(top.count.min > 1 for top in tops):
        return MergedGroups(request, refusal="its groups are one slot of several nodes each")
    alike = len({_unnamed(_one(top)) for top in tops}) == 1
    if not alike and not checked:
        return MergedGroups(request, refusal="the server is too old to enforce the requirements of each; upgrade it")
    allowed = [tuple(hosts.get(number, ())) for number in range(len(tops))]
    common = allowed[0]
    if len({frozenset(each) for each in allowed}) > 1:
        common = tuple(dict.fromkeys(name for each in allowed for name in each))
        exact = all(len(each) == top.count.min for each, top in zip(allowed, tops, strict=True))
        if tops[0].shared or not exact or len(common) < sum(map(len, allowed)):
            return MergedGroups(request, refusal="its slots cannot be assigned to the allowed nodes of each group")
    name = request.groups[0].name
    level = replace(
        tops[0] if alike else _bare(tops[0]),
        count=Count(sum(top.count.min for top in tops)),
        label=tops[0].label if marked else name or "slot",
    )
    task = replace(request.tasks[0], group=name)
    return MergedGroups(replace(request, groups=(Group(name=name, levels=(level,)),), tasks=(task,)), common)


def _one(level: Level) -> Level:
    return replace(level, count=Count())


def _unnamed(level: Level) -> Level:
    """Return the level with all labels replaced by one."""
    return replace(level, label="slot" if level.label else "", inside=tuple(map(_unnamed, level.inside)))


def _bare(level: Level) -> Level:
    """Return the level without requirements and with all labels replaced by one."""
    return replace(_unnamed(level), requires=(), inside=tuple(map(_bare, level.inside)))

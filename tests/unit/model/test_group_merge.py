"""Groups become one where nothing of them is lost: every slot is there, each group keeps its hosts."""

import pytest

from rainbow_sched.agent.backends.common.launches import copies, slots
from rainbow_sched.model.group_merge import merge_groups
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement, Task

IO = (Requirement("io", (Equals("kind", "nvme"),)),)
NET = (Requirement("net", (Equals("kind", "hdr"),)),)
ALL = (Task(command=("t",)),)


def nodes(name: str, count: int, *, cores: int = 2, most: int = -1, **fields: object) -> Group:
    level = {"label": name, "inside": (Level(type="core", count=Count(cores)),), "count": Count(count, most), **fields}
    return Group(name=name, levels=(Level(type="node", **level),))


def shared(name: str, count: int, **fields: object) -> Group:
    return nodes(name, count, label="", shared=True, **fields)


def of(*groups: Group, tasks: tuple[Task, ...] = ALL) -> Request:
    return Request(groups=groups, tasks=tasks)


@pytest.mark.parametrize(
    ("groups", "hosts", "expected"),
    [
        ((nodes("x", 2), nodes("y", 1)), {}, ()),
        ((shared("x", 2), shared("y", 3)), {}, ()),
        ((nodes("x", 1, label=""), nodes("y", 1, label="")), {}, ()),
        ((nodes("x", 2), nodes("y", 1)), {0: ("a", "b", "c"), 1: ("c", "a", "b")}, ("a", "b", "c")),
        ((shared("x", 2), shared("y", 3)), {0: ("a", "b"), 1: ("b", "a")}, ("a", "b")),
        ((nodes("x", 2, requires=IO), nodes("y", 1, requires=NET)), {0: ("a", "b"), 1: ("c",)}, ("a", "b", "c")),
    ],
)
def test_all_slots_are_in_the_one_group(groups: tuple[Group, ...], hosts: dict, expected: tuple[str, ...]):
    request = of(*groups)
    found = merge_groups(request, hosts)
    assert (found.refusal, found.hosts) == ("", expected)
    [group] = found.request.groups
    assert slots(group) == sum(map(slots, groups))
    assert copies(found.request, found.request.tasks[0]) == copies(request, request.tasks[0])
    assert group.levels[0].count.min == sum(one.levels[0].count.min for one in groups)


def test_what_all_groups_require_stays_and_what_one_requires_is_kept_by_its_hosts():
    both = merge_groups(of(nodes("x", 1, requires=IO), nodes("y", 1, requires=IO)), {})
    assert both.request.groups[0].levels[0].requires == IO
    one = merge_groups(of(nodes("x", 1, requires=IO), nodes("y", 1)), {0: ("a",), 1: ("b",)})
    assert one.request.groups[0].levels[0].requires == ()


@pytest.mark.parametrize(
    ("request_", "hosts", "reason"),
    [
        (of(nodes("x", 1), nodes("y", 1, cores=3)), {}, "different shapes"),
        (of(nodes("x", 1), nodes("y", 1, exclusive=True)), {}, "different shapes"),
        (of(nodes("x", 1), shared("y", 1)), {}, "different shapes"),
        (of(nodes("x", 1), nodes("y", 1, most=3)), {}, "different shapes"),
        (of(nodes("x", 2, label=""), nodes("y", 2, label="")), {}, "one slot of several nodes"),
        (of(nodes("x", 1), nodes("y", 1), tasks=(*ALL, *ALL)), {}, "different groups"),
        (of(nodes("x", 1), nodes("y", 1), tasks=(Task(command=("t",), group="y"),)), {}, "different groups"),
        (of(nodes("x", 1), Group(name="z", levels=(Level(type="core"),))), {}, "not all"),
        (of(nodes("x", 1), nodes("y", 1)), {0: ("a", "b"), 1: ("c",)}, "its slots cannot be assigned"),
        (of(nodes("x", 1), nodes("y", 1)), {0: ("a",)}, "its slots cannot be assigned"),
        (of(nodes("x", 1), nodes("y", 2)), {0: ("a",), 1: ("a", "b")}, "its slots cannot be assigned"),
        (of(shared("x", 1), shared("y", 1)), {0: ("a",), 1: ("b",)}, "its slots cannot be assigned"),
    ],
)
def test_what_would_be_lost_is_the_reason(request_: Request, hosts: dict, reason: str):
    assert reason in merge_groups(request_, hosts).refusal


def test_an_old_server_keeps_no_groups_apart():
    request = of(nodes("x", 1, requires=IO), nodes("y", 1))
    assert "upgrade" in merge_groups(request, {}, checked=False).refusal
    assert merge_groups(of(nodes("x", 1), nodes("y", 1)), {}, checked=False).refusal == ""

"""Plain flags with the meaning that `flux submit` gives them."""

import pytest

from rainbow_sched.jobspecs.dialects.flags import Flags, memory_level, request_from_flags
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Level, Task


def level(**flags):
    request = request_from_flags(Flags(command=("app",), **flags))
    return request.groups[0].levels[0]


def core(count, label=""):
    return Level(type="core", count=Count(count), label=label)


def test_nothing_said_is_one_core_in_some_node():
    assert level() == Level(type="node", shared=True, abstract=True, inside=(core(1),), label="task")


def test_tasks_without_nodes_are_slots_anywhere():
    found = level(tasks=8, cores_per_task=2, gpus_per_task=1)
    assert (found.count, found.shared, found.inside) == (Count(8), True, (core(2), Level(type="gpu")))


def test_nodes_alone_are_taken_whole_with_one_task_each():
    assert level(nodes=4) == Level(type="node", count=Count(4), exclusive=True, inside=(core(1, "task"),))


def test_tasks_spread_evenly_over_nodes_and_are_counted_in_all():
    request = request_from_flags(Flags(nodes=4, tasks=5, command=("app",)))
    assert request.groups[0].levels[0].inside == (core(2, "task"),)
    assert request.tasks == (Task(command=("app",), group="task", total=5),)
    assert request_from_flags(Flags(nodes=4, tasks=8, command=("app",))).tasks[0].total == 8
    assert request_from_flags(Flags(tasks=8, command=("app",))).tasks[0].total is None


def test_memory_is_for_each_node_or_spread_over_the_tasks():
    assert level(nodes=2, tasks=4, memory="16G").inside[1] == Level(type="memory", count=Count(16), unit="GiB")
    assert level(tasks=4, memory="16G").inside[1] == Level(type="memory", count=Count(4), unit="GiB")
    assert level(tasks=4, cores_per_task=2, memory_per_core="512").inside[1] == memory_level(2**30)


@pytest.mark.parametrize(
    ("amount", "count", "unit"),
    [(2**40, 1, "TiB"), (3 * 2**20, 3, "MiB"), (1000, 1000, "B"), (2**70 + 1, 2**50 + 1, "MiB")],
)
def test_memory_is_said_in_the_largest_unit_that_loses_nothing(amount, count, unit):
    if count > 2**40:
        with pytest.raises(Invalid):
            memory_level(amount)
    else:
        assert memory_level(amount) == Level(type="memory", count=Count(count), unit=unit)


@pytest.mark.parametrize(
    ("flags", "where"),
    [
        ({"nodes": 4, "tasks": 2}, "-N"),
        ({"nodes": 0}, "-N"),
        ({"tasks": -1}, "-n"),
        ({"cores_per_task": 0}, "-c"),
        ({"gpus_per_task": -1}, "-g"),
        ({"exclusive": True}, "--exclusive"),
        ({"gpus_per_node": 1}, "--gpus-per-node"),
        ({"memory": "lots"}, "--mem"),
    ],
)
def test_flags_that_make_no_sense_are_refused_by_name(flags, where):
    with pytest.raises(Invalid) as error:
        request_from_flags(Flags(**flags))
    assert error.value.where == where

"""Flux jobspecs, version 1 and canonical, to the letter of RFC 14, 25 and 31."""

import json

import pytest

from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Equals, Level, Requirement, Task


def document(resources, **more):
    return {
        "version": 1,
        "resources": resources,
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 3600.0}},
        **more,
    }


def slot(count, *inside, label="task"):
    return {"type": "slot", "count": count, "label": label, "with": list(inside)}


def vertex(kind, count=1, *inside, **more):
    return {"type": kind, "count": count, **({"with": list(inside)} if inside else {}), **more}


def level(*resources):
    (group,) = parse(json.dumps(document(list(resources)))).groups
    (found,) = group.levels
    return found


def core(count, label=""):
    return Level(type="core", count=Count(count), label=label)


def test_slots_of_cores_lie_each_in_one_node_that_may_be_shared():
    found = level(slot(10, vertex("core", 2), vertex("gpu", 1)))
    inside = (core(2), Level(type="gpu"))
    assert found == Level(type="node", count=Count(10), shared=True, abstract=True, inside=inside, label="task")


def test_slots_in_a_node_multiply_into_its_cores():
    found = level(vertex("node", 4, slot(3, vertex("core", 2))))
    assert found == Level(type="node", count=Count(4), inside=(core(6, "task"),))


def test_nodes_in_a_slot_are_multiplied_and_exclusive_by_default():
    inside = vertex("socket", 2, vertex("core", 4))
    found = level(slot(4, vertex("node", 1, inside)))
    socket = Level(type="socket", count=Count(2), exclusive=True, inside=(core(4),))
    assert found == Level(type="node", count=Count(4), exclusive=True, inside=(socket,), label="task")


def test_exclusive_can_be_said_and_unsaid():
    assert level(vertex("node", 1, slot(1, vertex("core")), exclusive=True)).exclusive
    assert not level(slot(1, vertex("node", 1, vertex("core"), exclusive=False))).exclusive


def test_whole_nodes_in_a_slot_are_taken():
    assert level(slot(4, vertex("node"))) == Level(type="node", count=Count(4), label="task")


def test_a_slot_below_a_rack_and_a_nested_slot_keep_their_places():
    node = vertex("node", 1, slot(1, vertex("core", 2)), exclusive=True)
    found = level(vertex("rack", 5, slot(2, vertex("ssd"), node, label="rabbit")))
    ssd, inner = found.inside
    assert (found.type, found.count) == ("rack", Count(5))
    assert ssd == Level(type="ssd", count=Count(2), label="rabbit")
    assert inner == Level(type="node", count=Count(2), exclusive=True, inside=(core(2, "task"),), label="rabbit")


def test_several_resources_are_groups_named_by_their_slot():
    resources = [
        vertex("cluster", 1, slot(2, vertex("node"), label="ib")),
        vertex("switch", 1, slot(2, vertex("core"))),
    ]
    request = parse(json.dumps(document(resources)))
    assert [group.name for group in request.groups] == ["ib", "task"]


def test_ranges_are_honoured_and_steps_reported():
    assert level(slot({"min": 3, "max": 30}, vertex("node"))).count == Count(3, 30)
    assert level(slot({"min": 3}, vertex("core", 2))).count == Count(3, None)
    request = parse(json.dumps(document([slot("4,9,16", vertex("node"))])))
    assert request.groups[0].levels[0].count == Count(4)
    assert request.ignored[0].startswith("resources[0].count: ")


def test_no_gpu_can_be_written_as_zero():
    assert level(slot(1, vertex("core"), vertex("gpu", 0))).inside == (core(1),)


def test_attributes_of_the_system_become_parts_of_the_request():
    system = {
        "duration": 0,
        "cwd": "/home/user",
        "environment": {"A": "1", "GONE": None},
        "queue": "batch",
        "bank": "lab",
        "job": {"name": "lmp", "color": "red"},
        "shell": {"options": {}},
        "dependencies": [{"scheme": "fluid", "value": "x"}],
    }
    request = parse(json.dumps(document([slot(1, vertex("core"))], attributes={"system": system, "user": {"a": 1}})))
    assert (request.duration, request.cwd, request.name) == (None, "/home/user", "lmp")
    assert request.environment == {"A": "1"}
    assert request.options == {"queue": "batch", "bank": "lab"}
    reported = [sentence.split(":")[0] for sentence in request.ignored]
    assert reported == [
        "attributes.user",
        "attributes.system.environment.GONE",
        "attributes.system.job.color",
        "attributes.system.shell",
        "attributes.system.dependencies[0]",
    ]


def test_tasks_count_per_slot_or_in_all():
    total = {"command": ["app", "x"], "slot": "task", "count": {"total": 5}}
    request = parse(json.dumps(document([slot(4, vertex("node"))], tasks=[total])))
    assert request.tasks == (Task(command=("app", "x"), group="task", total=5),)


def test_requirements_may_stand_beside_a_flux_jobspec():
    request = parse(
        json.dumps(document([slot(1, vertex("core"))], requires={"spack": [{"type": "package", "name": "ior"}]}))
    )
    assert request.requires == (Requirement("spack", (Equals("type", "package"), Equals("name", "ior"))),)


def constrained(constraint):
    attributes = {"system": {"duration": 1, "constraints": constraint}}
    request = parse(json.dumps(document([slot(1, vertex("core"))], attributes=attributes)))
    return request.properties, request.hosts, request.not_hosts


@pytest.mark.parametrize(
    ("constraint", "meant"),
    [
        ({}, ((), (), ())),
        ({"or": []}, ((), (), ())),
        ({"properties": ["ssd", "^slow"]}, (("ssd", "^slow"), (), ())),
        ({"not": [{"properties": ["slow"]}]}, (("^slow",), (), ())),
        ({"hostlist": ["n[0-1],m[08-10]-ib"]}, ((), ("n0", "n1", "m08-ib", "m09-ib", "m10-ib"), ())),
        ({"not": [{"hostlist": ["n[0-1]"]}]}, ((), (), ("n0", "n1"))),
        ({"or": [{"hostlist": ["a"]}, {"hostlist": ["b"]}]}, ((), ("a", "b"), ())),
        (
            {"and": [{"hostlist": ["n[0-5]"]}, {"hostlist": ["n[4-9]"]}, {"properties": ["ssd"]}]},
            (("ssd",), ("n4", "n5"), ()),
        ),
    ],
)
def test_constraints_are_read_as_rfc_31_means_them(constraint, meant):
    assert constrained(constraint) == meant


@pytest.mark.parametrize(
    "constraint",
    [
        {"or": [{"properties": ["a"]}, {"properties": ["b"]}]},
        {"not": [{"properties": ["a", "b"]}]},
        {"not": []},
        {"ranks": ["0"]},
        {"and": [{"hostlist": ["a"]}, {"hostlist": ["b"]}]},
        {"and": [{"hostlist": ["a"]}, {"not": [{"hostlist": ["a"]}]}]},
        {"propertys": ["a"]},
        {"properties": "a"},
        {"hostlist": ["n[0-99999999]"]},
        {"hostlist": ["n[3-1]"]},
        {"hostlist": ["n[0-"]},
    ],
)
def test_constraints_that_a_request_cannot_express_are_refused_with_their_path(constraint):
    with pytest.raises(Invalid) as error:
        constrained(constraint)
    assert error.value.where.startswith("attributes.system.constraints")


@pytest.mark.parametrize("missing", ["version", "resources", "tasks", "attributes"])
def test_each_key_of_rfc_14_must_be_there(missing):
    data = document([slot(1, vertex("core"))])
    del data[missing]
    with pytest.raises(Invalid, match=missing):
        parse(json.dumps(data), dialect="flux")


@pytest.mark.parametrize(
    ("resource", "where"),
    [
        ({"type": "slot", "count": 1, "with": [vertex("core")]}, "resources[0]"),
        ({"type": "slot", "count": 1, "label": "task"}, "resources[0]"),
        ({"type": "slot", "count": 1, "label": "task", "with": []}, "resources[0].with"),
        ({"type": "slot", "count": 0, "label": "task", "with": [vertex("core")]}, "resources[0].count"),
        (slot(1, {"type": "core"}), "resources[0].with[0]"),
        (slot(1, vertex("core", exclusive="blah")), "resources[0].with[0].exclusive"),
        (slot(1, vertex("core", id=[1])), "resources[0].with[0].id"),
        (slot(1, vertex("core", lable="x")), "resources[0].with[0].lable"),
        (slot(2**40, vertex("node", 2**40)), ""),
        (vertex("node", 1, slot(1, vertex("core")), slot(1, vertex("core"))), "resources[0].with[1].label"),
        (vertex("node"), "tasks[0].slot"),
    ],
)
def test_resources_that_break_the_rfc_are_refused_where_they_do(resource, where):
    with pytest.raises(Invalid) as error:
        parse(json.dumps(document([resource])))
    assert error.value.where == where


@pytest.mark.parametrize(
    "task",
    [
        {"command": "app", "slot": "task", "count": {"per_slot": 1}},
        {"command": [], "slot": "task", "count": {"per_slot": 1}},
        {"command": [1], "slot": "task", "count": {"per_slot": 1}},
        {"command": ["a"], "slot": "tusk", "count": {"per_slot": 1}},
        {"command": ["a"], "slot": "task", "count": {}},
        {"command": ["a"], "slot": "task", "count": {"per_slot": 1, "total": 1}},
        {"command": ["a"], "slot": "task", "count": {"total": 0}},
        {"command": ["a"], "slot": "task"},
        {"command": ["a"], "count": {"per_slot": 1}},
    ],
)
def test_tasks_that_break_the_rfc_are_refused(task):
    with pytest.raises(Invalid, match=r"tasks\[0\]"):
        parse(json.dumps(document([slot(1, vertex("core"))], tasks=[task])))


def test_two_kinds_of_slots_can_lie_in_one_node_and_keep_their_labels():
    memory = vertex("memory", 4, unit="GB")
    readers, base = slot(10, vertex("core"), memory, label="reader"), slot(1, vertex("core", 6), label="base")
    tasks = [{"command": [name], "slot": name, "count": {"per_slot": 1}} for name in ("reader", "base")]
    request = parse(json.dumps(document([vertex("node", 1, readers, base)], tasks=tasks)))
    (node,) = request.groups[0].levels
    assert [(inner.type, inner.count.min, inner.label) for inner in node.inside] == [
        ("core", 10, "reader"),
        ("memory", 40, "reader"),
        ("core", 6, "base"),
    ]
    assert [task.group for task in request.tasks] == ["reader", "base"]

"""Conversion of requests to nextgen and Flux V1."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.dialects.flux import to_flux
from rainbow_sched.jobspecs.dialects.nextgen_writer import to_nextgen
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Unsupported
from rainbow_sched.model.request import Count, Group, Level, Request, Task
from tests.unit.jobspecs.shapes import flux_documents, nextgen_documents


@settings(max_examples=80, deadline=None)
@given(nextgen_documents())
def test_nextgen_survives_a_round_trip(document):
    request = parse(json.dumps(document))
    assert parse(json.dumps(to_nextgen(request))) == request


@settings(max_examples=80, deadline=None)
@given(flux_documents())
def test_flux_survives_a_round_trip(document):
    request = parse(json.dumps(document))
    assert parse(json.dumps(to_flux(request))) == request


def concrete(level):
    """Return the level without the fields that differ between dialects."""
    return replace(level, abstract=False, label="", inside=tuple(concrete(inner) for inner in level.inside))


@settings(max_examples=100, deadline=None)
@given(flux_documents())
def test_flux_written_as_nextgen_has_the_same_resources(document):
    del document["attributes"]["system"]["duration"]
    document["attributes"]["system"].pop("constraints", None)
    request = parse(json.dumps(document))
    again = parse(json.dumps(to_nextgen(request)))
    assert [concrete(group.levels[0]) for group in again.groups] == [
        concrete(group.levels[0]) for group in request.groups
    ]
    assert again.tasks == request.tasks


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 9), st.integers(0, 20), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_flags_mean_what_the_same_flux_jobspec_means(nodes, more, cores, gpus, exclusive):
    tasks = nodes + more
    flags = Flags(
        nodes=nodes, tasks=tasks, cores_per_task=cores, gpus_per_task=gpus, exclusive=exclusive, command=("app",)
    )
    inside = [{"type": "core", "count": cores}] + ([{"type": "gpu", "count": gpus}] if gpus else [])
    slot = {"type": "slot", "count": -(-tasks // nodes), "label": "task", "with": inside}
    document = {
        "version": 1,
        "resources": [{"type": "node", "count": nodes, "exclusive": exclusive, "with": [slot]}],
        "tasks": [
            {"command": ["app"], "slot": "task", "count": {"total": tasks} if tasks % nodes else {"per_slot": 1}},
        ],
        "attributes": {"system": {"duration": 0}},
    }
    assert request_from_flags(flags) == parse(json.dumps(document))


def test_plain_flags_without_nodes_are_slots_like_nextgens_replicas():
    flags = request_from_flags(Flags(tasks=4, cores_per_task=2, command=("app",)))
    text = "resources: {task: {type: node, replicas: 4, with: [{type: core, count: 2}]}}\n"
    text += "tasks: [{command: [app], resources: task}]"
    nextgen = parse(text)
    assert concrete(flags.groups[0].levels[0]) == concrete(nextgen.groups[0].levels[0])
    assert flags.tasks == nextgen.tasks


def a_request(*levels, **more):
    return Request(groups=(Group(levels=levels),), tasks=(Task(command=("app",)),), **more)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (
            parse("resources: {a: {type: node, replicas: 1, requires: {io: {t: x}}, with: [{type: core}]}}"),
            "io",
        ),
        (request_from_flags(Flags(nodes=1, tasks=1, memory="4G", command=("a",))), "4 GiB memory"),
        (a_request(Level(type="core", count=Count(2, 5))), "more than 2 core"),
        (a_request(Level(type="core"), options={"partition": "gpu"}), "partition=gpu"),
        (a_request(Level(type="core"), image="alpine"), "alpine"),
        (a_request(Level(type="core"), parameters={"p": 1}), "parameter p"),
        (a_request(Level(type="core"), Level(type="gpu")), "several groups"),
        (a_request(Level(type="ssd")), "ssd"),
        (request_from_flags(Flags(script="#!/bin/sh\n")), "flux batch"),
        (
            parse("resources: {a: {type: rack, replicas: 1, with: [{type: node, count: 2}]}}\ntasks: [{command: [a]}]"),
            "placement in one rack",
        ),
    ],
)
def test_flux_v1_lists_what_it_cannot_express(request_, named):
    with pytest.raises(Unsupported, match=named):
        to_flux(request_)


def test_an_error_lists_all_that_flux_v1_cannot_express():
    node = "{type: node, count: 2, with: [{type: core, count: 8}]}"
    text = f"resources: {{a: {{type: rack, replicas: 1, with: [{node}]}}}}\ntasks: [{{command: [a]}}]"
    with pytest.raises(Unsupported, match=r": placement in one rack; the number of tasks, 1 \(2 would run\)$"):
        to_flux(parse(text))


def test_nextgen_omits_hosts_properties_and_options():
    for more in ({"hosts": ("n1",)}, {"not_hosts": ("n1",)}, {"properties": ("ssd",)}, {"options": {"qos": "x"}}):
        request = a_request(Level(type="core"), **more)
        assert to_nextgen(request)["resources"] == {"group1": {"type": "core", "count": 1}}


def test_several_levels_of_one_group_become_several_resources():
    written = parse(json.dumps(to_nextgen(a_request(Level(type="core"), Level(type="gpu")))))
    assert [(group.name, group.levels[0].type) for group in written.groups] == [("group1", "core"), ("group1-2", "gpu")]


@pytest.mark.parametrize(("slots", "cores", "total"), [(4, 1, 16), (1, 4, 4), (2, 2, 8)])
def test_as_many_tasks_run_as_the_flux_jobspec_had_slots(slots, cores, total):
    slot = {"type": "slot", "count": slots, "label": "task", "with": [{"type": "core", "count": cores}]}
    document = {
        "version": 1,
        "resources": [{"type": "node", "count": 4, "with": [slot]}],
        "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0.0}},
    }
    request = parse(json.dumps(document))
    assert request.tasks[0].total == total
    assert to_flux(request) == document


def test_a_task_on_each_of_a_range_of_nodes_is_not_counted():
    slot = "{type: slot, count: 2, label: t, with: [{type: core, count: 1}]}"
    text = f"version: 1\nresources: [{{type: node, count: {{min: 2, max: 4}}, with: [{slot}]}}]\n"
    request = parse(
        text + "tasks: [{command: [a], slot: t, count: {per_slot: 1}}]\nattributes: {system: {duration: 1}}"
    )
    assert request.tasks[0].total is None


def test_tasks_that_do_not_share_the_cores_evenly_are_unsupported():
    level = Level(type="node", count=Count(2), inside=(Level(type="core", count=Count(3)),))
    request = Request(groups=(Group(levels=(level,)),), tasks=(Task(command=("a",), total=8),))
    with pytest.raises(Unsupported, match=r": the number of tasks, 8 \(2 would run\)$"):
        to_flux(request)

"""Compatibility documents of images become requirements, or are reported."""

import json

import pytest

from rainbow_sched.jobspecs.dialects.compatibility import (
    DEFAULT_RULES,
    AttributeRule,
    Comparison,
    read_rules,
    with_compatibility,
)
from rainbow_sched.jobspecs.dialects.flags import Flags, request_from_flags
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Equals, Requirement, Runs, Within

SPEC = {
    "version": "0.0.0",
    "kind": "CompatibilitySpec",
    "metadata": {"name": "lammps", "schemas": {"io.archspec": "https://example.org/archspec.json"}},
    "compatibilities": [
        {"name": "io.archspec", "version": "0.0.0", "attributes": {"cpu.target": "x86_64_v3"}},
        {
            "name": "org.supercontainers",
            "attributes": {
                "mpi.implementation": "mpich",
                "mpi.version": "4.1.1",
                "hardware.gpu.available": "no",
                "x": 1,
            },
        },
    ],
}
MEANT = (
    Requirement("arch", (Runs("target", "x86_64_v3"),)),
    Requirement("mpi", (Equals("implementation", "mpich"), Equals("version", "4.1.1"))),
)


def test_each_attribute_with_a_rule_becomes_a_requirement_on_the_nodes():
    request = with_compatibility(request_from_flags(Flags(nodes=2, tasks=2)), json.dumps(SPEC))
    assert request.groups[0].levels[0].requires == MEANT


def test_what_has_no_rule_or_asks_for_nothing_is_reported():
    request = with_compatibility(request_from_flags(Flags()), json.dumps(SPEC))
    assert len(request.ignored) == 2
    assert "hardware.gpu.available=no asks for nothing" in request.ignored[0]
    assert "no rule" in request.ignored[1]


@pytest.mark.parametrize("place", ["%s", "attributes: %s"])
def test_an_image_and_its_document_can_stand_in_the_jobspec(place):
    written = place % f"{{image: alpine, compatibility: {json.dumps(SPEC)}}}"
    data = "resources: {a: {type: rack, replicas: 1, with: [{type: node}]}}\n"
    request = parse(data + (written if "attributes" in place else f"image: alpine\ncompatibility: {json.dumps(SPEC)}"))
    assert request.image == "alpine"
    assert request.groups[0].levels[0].requires == ()
    assert request.groups[0].levels[0].inside[0].requires == MEANT


def test_a_site_can_extend_the_table():
    table = {**DEFAULT_RULES, "org.supercontainers/x": AttributeRule("site", "level", Comparison.AT_LEAST)}
    request = with_compatibility(request_from_flags(Flags(nodes=1)), json.dumps(SPEC), rules=table)
    assert request.groups[0].levels[0].requires[-1] == Requirement("site", (Within("level", min=1),))
    text = json.dumps({"resources": {"a": {"type": "node"}}, "compatibility": SPEC})
    assert parse(text, compat=table).groups[0].levels[0].requires[-1].subsystem == "site"


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"kind": "Pod"}, "kind"),
        ({"compatibilities": 3}, "compatibilities"),
        ({"compatibilities": [{"attributes": {}}]}, "compatibilities[0]"),
        (
            {"compatibilities": [{"name": "io.archspec", "attributes": {"cpu.target": 5}}]},
            "compatibilities[0].attributes",
        ),
        (
            {"compatibilities": [{"name": "io.archspec", "attributes": {"cpu.target": []}}]},
            "compatibilities[0].attributes",
        ),
        ({"kinds": 1}, "kinds"),
    ],
)
def test_a_broken_document_is_refused_where_it_is_broken(change, where):
    with pytest.raises(Invalid) as error:
        with_compatibility(request_from_flags(Flags()), json.dumps({**SPEC, **change}))
    assert error.value.where.startswith(where)


def test_a_site_adds_rows_to_the_table_and_replaces_some():
    table = read_rules(
        "org.site/fabric: {subsystem: net, field: kind}\nio.archspec/cpu.target: {subsystem: a, field: b}"
    )
    assert table["org.site/fabric"] == AttributeRule("net", "kind")
    assert table["io.archspec/cpu.target"] == AttributeRule("a", "b")
    assert table.keys() == {*DEFAULT_RULES, "org.site/fabric"}
    assert read_rules("x/y: {subsystem: s, field: f, how: at least}")["x/y"].how is Comparison.AT_LEAST


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fabric: {subsystem: s, field: f}", "must be NAMESPACE/ATTRIBUTE"),
        ("a/b: {subsystem: s}", "field"),
        ("a/b: {subsystem: s, field: f, how: maybe}", "'maybe' is not one of equals, at least, runs, when true"),
        ("a/b: {subsystem: s, field: f, haw: runs}", "haw"),
        ("[1]", "expected a map"),
    ],
)
def test_a_table_that_cannot_be_read_says_what_is_wrong(text, says):
    with pytest.raises(Invalid, match=says):
        read_rules(text)

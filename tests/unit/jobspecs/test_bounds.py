"""A bound that nothing could ever meet is refused when a job comes in, and read as it is when it is stored."""

from __future__ import annotations

import json

import pytest

from rainbow_sched.jobspecs.canonical import from_json, to_json
from rainbow_sched.jobspecs.dialects.compatibility import AttributeRule, Comparison, with_compatibility
from rainbow_sched.jobspecs.dialects.requirements import check_bounds
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Requirement, Within
from tests.support.graph_builders import a_level, a_request, slots

HOW = "write a number, or a version, which begins with a digit"


def nextgen(requires: object) -> str:
    node = {"type": "node", "replicas": 1, "requires": requires, "with": [{"type": "core", "count": 1}]}
    return json.dumps({"version": 1, "resources": {"job": node}, "tasks": [{"command": ["true"]}]})


@pytest.mark.parametrize(
    "requires",
    [
        [{"name": "c", "field": "value", "min": "gcc"}],
        [{"name": "c", "field": "value", "min": "1", "max": "gcc"}],
        [{"name": "c", "all": [{"field": "name", "match": "x"}, {"field": "value", "max": "gcc"}]}],
        {"c": [{"type": "x", "value": {"min": "gcc"}}]},
        {"c": [{"type": "x", "with": [{"type": "y", "value": {"max": "gcc"}}]}]},
    ],
)
def test_a_word_as_a_bound_is_refused_with_what_to_write(requires: object) -> None:
    with pytest.raises(Invalid, match="'gcc' is not a bound") as refused:
        parse(nextgen(requires))
    assert HOW in str(refused.value)


def test_a_compatibility_document_whose_bound_is_a_word_is_refused() -> None:
    text = json.dumps(
        {
            "version": "0.1.0",
            "kind": "CompatibilitySpec",
            "compatibilities": [{"name": "site", "version": "1", "attributes": {"mpi": "openmpi"}}],
        }
    )
    table = {"site/mpi": AttributeRule("mpi", "version", Comparison.AT_LEAST)}
    with pytest.raises(Invalid, match=HOW):
        with_compatibility(a_request(slots(1, a_level("core", 1))), text, rules=table)


@pytest.mark.parametrize("below", [False, True])
def test_a_stored_request_with_such_a_bound_is_read_and_a_new_one_is_refused(below: bool) -> None:
    asked = Requirement("c", (Within("value", min="gcc"),))
    if below:
        asked = Requirement("c", (), (asked,))
    core = a_level("core", 1)
    for request in (a_request(slots(1, core, requires=(asked,))), a_request(core, requires=(asked,))):
        stored = from_json(to_json(request))
        assert stored == request
        with pytest.raises(Invalid, match=HOW):
            check_bounds(stored)

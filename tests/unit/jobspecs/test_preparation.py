"""Prepared requests: equal match keys exactly for requests that matching cannot tell apart."""

from dataclasses import replace
from hashlib import sha256

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.jobspecs.preparation import prepare
from rainbow_sched.model.candidate import Demand
from rainbow_sched.model.request import Equals, Group, Level, Request, Requirement
from tests.unit.jobspecs.shapes import requests


def _matched(request: Request) -> str:
    """What matching looks at, with the types of all values."""
    parts = (request.groups, request.requires, request.hosts, request.not_hosts, request.properties)
    return repr(parts)


@settings(max_examples=80, deadline=None)
@given(requests)
def test_the_text_is_the_canonical_one_and_its_digest_goes_with_it(request):
    prepared = prepare(request)
    assert prepared.text == to_json(request)
    assert prepared.digest == sha256(to_json(request).encode()).hexdigest()
    assert prepared.demand == Demand.of(request)
    assert prepared.size == (1, prepared.demand.nodes, prepared.demand.cores)


@settings(max_examples=150, deadline=None)
@given(requests, requests, st.sampled_from(["groups", "requires", "hosts", "not_hosts", "properties"]))
def test_match_keys_are_equal_exactly_if_matching_sees_the_same(one, other, field):
    mixed = replace(one, **{field: getattr(other, field)})
    assert (prepare(one).match_key == prepare(mixed).match_key) == (_matched(one) == _matched(mixed))


@settings(max_examples=80, deadline=None)
@given(requests, st.sampled_from(["name", "cwd", "image", "duration", "environment", "parameters", "options", "tasks"]))
def test_what_matching_ignores_does_not_change_the_match_key(request, field):
    values = {"duration": 77.0, "environment": {"A": "1"}, "parameters": {"p": 1}, "options": {"o": "1"}, "tasks": ()}
    changed = replace(request, **{field: values.get(field, "another")})
    assert prepare(changed).match_key == prepare(request).match_key


def test_values_of_different_types_are_told_apart():
    groups = (Group(levels=(Level(type="core"),)),)
    keys = {
        prepare(Request(groups=groups, requires=(Requirement("software", (Equals("version", value),)),))).match_key
        for value in (1, 1.0, True, "1")
    }
    assert len(keys) == 4

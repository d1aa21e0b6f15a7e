"""The canonical form: exact, deterministic, both ways."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from rainbow_sched.jobspecs.canonical import from_json, to_json
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count, Group, Level, Request
from tests.unit.jobspecs.shapes import requests


@settings(max_examples=80, deadline=None)
@given(requests)
def test_every_request_is_read_back_equal_and_written_the_same(request):
    text = to_json(request)
    assert from_json(text) == request
    assert to_json(from_json(text)) == text


@settings(max_examples=30, deadline=None)
@given(requests)
def test_the_order_of_a_mapping_does_not_show(request):
    turned = replace(
        request,
        environment=dict(reversed(request.environment.items())),
        parameters=dict(reversed(request.parameters.items())),
        options=dict(reversed(request.options.items())),
    )
    assert to_json(turned) == to_json(request)


def test_the_form_is_small_and_says_its_version():
    request = Request(groups=(Group(levels=(Level(type="core", count=Count(8)),)),), duration=60)
    assert to_json(request) == '{"duration":60.0,"groups":[{"levels":[{"count":8,"type":"core"}]}],"rainbow":1}'
    assert parse(to_json(request)) == request


def test_one_and_true_are_not_confused():
    one = '{"rainbow":1,"groups":[{"levels":[{"type":"core"}]}],"parameters":{"p":%s}}'
    kept = [from_json(one % value).parameters["p"] for value in ("1", "true", "1.0", '"1"')]
    assert [type(value) for value in kept] == [int, bool, float, str]


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"rainbow":2,"groups":[]}',
        '{"rainbow":1,"groups":[]}',
        '{"rainbow":1,"groups":[{"levels":[{"type":"core","cout":1}]}]}',
        '{"rainbow":1,"groups":[{"levels":[{"type":"core","count":[2,1]}]}]}',
        '{"rainbow":1,"groups":[{"levels":[{"type":"core","shared":true}]}]}',
    ],
)
def test_what_was_not_written_by_it_is_refused(text):
    with pytest.raises(Invalid):
        from_json(text)

"""Whatever is sent, the answer is a Request or a typed error, quickly."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.canonical import from_json, to_json
from rainbow_sched.jobspecs.registry import parse
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Request
from tests.unit.jobspecs.shapes import flux_documents, nextgen_documents, requests

LEGACY = {
    "version": 1,
    "resources": [
        {
            "type": "node",
            "count": 1,
            "with": [{"type": "slot", "label": "a", "count": 1, "with": [{"type": "core", "count": 1}]}],
        }
    ],
    "task": {
        "command": ["x"],
        "slot": "a",
        "count": {"per_slot": 1},
        "resources": {"io": {"match": [{"field": "a", "value": 1}]}},
    },
}
COMPAT = {
    "resources": {"a": {"type": "node", "requires": {"s": [{"type": "x", "with": [{"v": {"min": 1}}]}]}}},
    "compatibility": {
        "kind": "CompatibilitySpec",
        "compatibilities": [{"name": "io.archspec", "attributes": {"cpu.target": "zen"}}],
    },
    "attributes": {"duration": "5m", "environment": {"A": "b"}, "parameter": {"p": 1}},
}
wrong = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**62,
        1e300,
        "",
        "x",
        "9" * 40,
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"a": []}},
        ["", 1],
        "2-1",
        "[",
        "\x7f",
    ]
)


def places(data, path=()):
    """Every place in a document, as a path of keys."""
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def put(data, path, value):
    """A copy of the document with another value at one place."""
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = put(copy[path[0]], path[1:], value)
    return copy


def answer(text):
    """A Request that can be stored and read back, or Invalid; anything else fails the test."""
    try:
        request = parse(text)
    except Invalid as error:
        return error
    assert from_json(to_json(request)) == request
    return request


@settings(max_examples=150, deadline=None)
@given(
    nextgen_documents() | flux_documents() | st.just(LEGACY) | st.just(COMPAT) | requests.map(to_json).map(json.loads),
    wrong,
    st.data(),
)
def test_a_wrong_value_at_any_place_gives_a_request_or_a_typed_error(document, value, data):
    path = data.draw(st.sampled_from(list(places(document))))
    found = answer(json.dumps(put(document, path, value)))
    assert isinstance(found, Request) or len(str(found)) < 2_000


@pytest.mark.parametrize("document", [LEGACY, COMPAT])
def test_every_wrong_value_at_every_place_of_a_whole_document(document):
    values = [None, True, 0, -1, "", "x", [], {}, [[]], {"": None}, 1.5]
    for path in places(document):
        for value in values:
            answer(json.dumps(put(document, path, value)))


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("{}[]:,-&*!<|>'\"#%@ \n\tab01resources:"), max_size=60))
def test_any_text_gives_a_request_or_a_typed_error(text):
    assert isinstance(answer(text), Request | Invalid)


def nested(depth):
    data = {"type": "core"}
    for _ in range(depth):
        data = {"type": "node", "with": [data]}
    return data


def constrained(constraint):
    """A Flux jobspec with a constraint."""
    return json.dumps(
        {
            "version": 1,
            "resources": [{"type": "slot", "label": "t", "count": 1, "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["x"], "slot": "t", "count": {"total": 1}}],
            "attributes": {"system": {"constraints": constraint}},
        }
    )


SLOTS = {"type": "slot", "label": "t", "count": 2**39, "with": [{"type": "core", "count": 1}]}
MANY = "resources: {" + ",".join(f"a{i}: {{type: c}}" for i in range(900)) + "}"
BOMBS = {
    "brackets": "[" * 65_000,
    "braces": "{" * 65_000,
    "json depth": '{"resources":' * 5_000,
    "billion laughs": "a: &a [x,x]\nb: &b [*a,*a]\nresources: [*b,*b]",
    "merge": "a: &a {x: 1}\nresources: {<<: *a}",
    "long number": "resources: {a: {type: core, count: %s}}" % ("9" * 60_000),
    "long float": "resources: {a: {type: core, count: 1.%s}}" % ("9" * 60_000),
    "long key": "%s: 1" % ("k" * 1000),
    "quoted": 'a: "%s' % ("\\" * 60_000),
    "dashes": "- " * 32_000,
    "questions": "? " * 32_000,
    "colons": ": " * 32_000,
    "hashes": "#" * 65_000,
    "spaces": " " * 65_000 + "flux: -N1",
    "symbols": "!" * 65_000 + "flux:",
    "tabs": "\t" * 65_000,
    "newlines": "\n" * 65_000 + "flux:",
    "wide": "resources: {a: {type: node, with: [" + ",".join(["{type: c}"] * 3_000) + "]}}",
    "wide and deep": json.dumps({"resources": {"a": {"type": "x", "with": [nested(13)] * 100}}}),
    "deep": json.dumps({"resources": {"a": nested(40)}}),
    "many groups": json.dumps({"resources": {f"g{i}": {"type": "c"} for i in range(3_000)}}),
    "more tasks than numbers": json.dumps(
        {
            "version": 1,
            "resources": [{"type": "node", "count": 2**39, "with": [SLOTS]}],
            "tasks": [{"command": ["x"], "slot": "t", "count": {"per_slot": 2**39}}],
            "attributes": {"system": {}},
        }
    ),
    "many hosts": constrained({"hostlist": [f"{c}[0-19999]" for c in "abcdefghijklmnop"]}),
    "hosts again and again": constrained({"and": [{"hostlist": ["a[0-9999]"]}] * 1_500}),
    "one host again and again": constrained({"hostlist": ["a[" + ",".join(["0-9999"] * 8_000) + "]"]}),
    "many names": f"{MANY}\ntasks: [" + ",".join(["{command: [a], resources: aaa}"] * 1_000) + "]",
    "many requirements": f"{MANY}\ntasks: [" + ",".join(["{command: [a], requires: {a: {b: c}}}"] * 200) + "]",
    "quotes in a script": "#!/bin/sh\n#SBATCH " + "'\"" * 30_000,
    "options in a script": "#!/bin/sh\n" + "#SBATCH -n1 -N1\n" * 4_000,
    "clock": "resources: {a: {type: c}}\nattributes: {duration: '%s'}" % ("1:" * 30_000),
    "ids": "resources: {a: {type: c, count: '%s'}}" % ("1-2," * 15_000),
    "command": 'resources: {a: {type: c}}\ntasks: [{command: "%s"}]' % ("\\\\ " * 18_000),
}


@pytest.mark.timeout(10)  # a few milliseconds each; a bomb would take minutes
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_quickly(name):
    answer(BOMBS[name])


def test_the_worst_documents_are_really_refused():
    for name in (
        "billion laughs",
        "merge",
        "long number",
        "deep",
        "wide",
        "many groups",
        "many hosts",
        "one host again and again",
    ):
        assert isinstance(answer(BOMBS[name]), Invalid), name


@pytest.mark.parametrize(
    "text",
    [
        "resources: {a: {type: c}}\nattributes: {" + ",".join(f"duratio{i}: 1" for i in range(4_000)) + "}",
        "#!/bin/sh\n" + "#SBATCH --zz\n" * 4_000,
    ],
)
def test_what_is_reported_does_not_grow_without_end(text):
    ignored = parse(text).ignored
    assert len(ignored) == 101
    assert ignored[-1] == "and more that is not honoured"

"""Documents: plain data from JSON or YAML, or a typed error that says where."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.documents.reader import DocumentLimits, read
from rainbow_sched.model.errors import Invalid, TooLarge

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs",)), max_size=12)
plain = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(plain)
def test_json_is_read_as_the_json_module_reads_it(data):
    assert read(json.dumps([data])).data == [data]


@settings(max_examples=150, deadline=None)
@given(plain)
def test_what_pyyaml_writes_is_read_back(data):
    assert read(yaml.safe_dump({"a": data})).data == {"a": data}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("1:30:00", "1:30:00"),
        ("2023-08-02", "2023-08-02"),
        ("2Aug2023", "2Aug2023"),
        ("010", "010"),
        ("7e10", "7e10"),
        ("1e+06", 1e6),
        ("0.5.2", "0.5.2"),
        ("1_000", "1_000"),
        ("3.10", 3.1),
        ("'3.10'", "3.10"),
        ("~", None),
        ("TRUE", True),
        ("-7", -7),
    ],
)
def test_plain_scalars_mean_what_people_expect(text, value):
    assert read(f"a: {text}").data == {"a": value}
    assert type(read(f"a: {text}").data["a"]) is type(value)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("a: 1\nb: &x 2", "line 2", "anchors"),
        ("a: *x", "line 1", "aliases"),
        ("a: 1\n<<: {b: 1}", "line 2", "merge"),
        ("a: !!python/object:os.system {}", "line 1", "tags"),
        ("a: !!str 1", "line 1", "tags"),
        ("a: 1\n\na: 2", "line 3", "duplicate key"),
        ("a: .nan", "line 1", "finite"),
        ("a: -.inf", "line 1", "finite"),
        ("a: 1\n--- \nb: 2", "line 2", "second document"),
        ("? [a, b]\n: 1", "line 1", "a key must be text"),
        ("a: [1, 2", "line", "not YAML"),
        ("a: 99999999999999999999", "line 1", "whole number"),
        ('{"a": 1, "a": 2}', "a", "duplicate key"),
        ('{"a": NaN}', "", "finite"),
        ('{"a": 1e999}', "", "too large"),
        ('{"a": "\\u0000"}', "", "NUL"),
        ('{"a": "\\ud800"}', "", "surrogate"),
        ('{"a": \n 1,, }', "line 2", "not JSON"),
        ("a: \ud800", "", "Unicode"),
    ],
)
def test_what_is_hostile_or_broken_is_refused_and_located(text, where, what):
    with pytest.raises(Invalid) as error:
        read(text)
    assert where in error.value.where
    assert what in error.value.what


@pytest.mark.parametrize(
    "text",
    [
        "[" * 60_000,
        "{a: " * 10_000,
        "[" * 60_000 + "]" * 4_000,
        '{"a":' * 12_000,
        "- " * 30_000,
        "[" * 33 + "]" * 33,
        "a:\n" + "\n".join(" " * i + "a:" for i in range(1, 300)),
        "[" + "1," * 20_000 + "1]",
        "\n".join(f"k{i}: 1" for i in range(6_000)),
        "x" * 70_000,
        "é" * 40_000,
    ],
    ids=range(11),
)
def test_what_is_too_deep_too_many_or_too_long_is_too_large(text):
    with pytest.raises(TooLarge):
        read(text)


def test_limits_are_the_callers_choice():
    assert read("a: 1", DocumentLimits(bytes=4)).data == {"a": 1}
    with pytest.raises(TooLarge):
        read("a: 1", DocumentLimits(bytes=3))


def test_flow_style_yaml_that_is_not_json_is_read():
    assert read("{a: [1, x]}").data == {"a": [1, "x"]}


def test_an_error_found_later_gets_its_line():
    document = read("a:\n  b:\n  - c: 1\n")
    assert document.with_line(Invalid("no", where="a.b[0].c")).where == "a.b[0].c (line 3)"
    assert document.with_line(Invalid("no", where="z")).where == "z"


@pytest.mark.parametrize("text", ["1", "true", "null", "1.5e3", "2024-01-01", ".inf", "99999999999999999999"])
def test_scalars_stay_text_on_request(text):
    assert read(f"a: {text}", scalars_as_text=True).data == {"a": text}
    assert read(f'{{"a": [{text}]}}', scalars_as_text=True).data == {"a": [text]}

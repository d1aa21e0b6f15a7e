"""A policy's options: names are checked with a hint, YAML text is read without its traps."""

from __future__ import annotations

import pytest

from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.selection.options import MAX_YAML_CHARS, read_yaml, take


def test_an_option_that_a_policy_does_not_have_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(Invalid, match="'least' has no option 'kay'; did you mean 'key'"):
        take("least", {"kay": "x"}, {"key": ""})
    with pytest.raises(Invalid, match="it takes none"):
        take("random", {"key": "x"}, {})


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert take("p", {"b": "2"}, {"a": "1", "b": "0"}) == {"a": "1", "b": "2"}


def test_every_scalar_stays_text() -> None:
    assert read_yaml("- {priority: 1, on: yes, when: 2024-01-01}", "x") == [
        {"priority": "1", "on": "yes", "when": "2024-01-01"}
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: &x 1\nb: *x", "anchors"),
        ("a: *x", "aliases"),
        ("a: !!python/object:os.system 1", "tags"),
        ("a: !!binary aGk=", "tags"),
        ("[" * 50 + "]" * 50, "nested deeper than 8 levels"),
        ("{a: 1, b: {a: 2}, a: 3}", "duplicate key 'a'"),
        ("[a, {? [x] : 1}]", "a key must be text"),
        ("a: [1", "not YAML"),
        ("a: 1\n\tb: 2", "not YAML"),
        ("x: \x07", "not YAML"),
    ],
)
def test_traps_in_yaml_are_refused_with_their_line(text: str, says: str) -> None:
    with pytest.raises(Invalid, match=says) as caught:
        read_yaml(text, "here")
    assert caught.value.where.startswith("here")


def test_equal_keys_in_different_maps_are_fine() -> None:
    assert read_yaml("[{a: 1}, {a: {a: 2}, b: [a, a]}]", "x") == [{"a": "1"}, {"a": {"a": "2"}, "b": ["a", "a"]}]


def test_yaml_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(TooLarge):
        read_yaml("a" * (MAX_YAML_CHARS + 1), "here")

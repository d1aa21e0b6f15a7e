"""Values compare as people read them, and nothing makes comparing fail."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow.model.versions import at_most, equal, version_key, within

ASCENDING = [
    ["0.5.2", "0.5.10", "0.10.0"],
    ["1.9", "1.10", "2"],
    ["12.2.0-rc1", "12.2.0", "12.2.1"],
    [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
    ],
    ["2Aug2023", "3Mar2020", "23Jun2022"],
    ["2023.8", "2024"],
    ["2023-08-02", "2023-10-01"],
    ["v1.2", "v1.3"],
    ["8912645823", "10000000000"],
]
SCALARS = st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.booleans())


@pytest.mark.parametrize("versions", ASCENDING, ids=lambda versions: versions[0])
def test_versions_come_in_the_order_people_mean(versions):
    for one, other in pairwise(versions):
        assert version_key(one) < version_key(other)
        assert not at_most(other, one)


@pytest.mark.parametrize(("one", "other"), [("5", 5), (5.0, "5"), ("true", True), (5, 5.0), ("x", "x")])
def test_equal_values_are_equal_across_types(one, other):
    assert equal(one, other)
    assert equal(other, one)


@pytest.mark.parametrize(("one", "other"), [("1.10", "1.1"), (True, 1), ("5", 6), ("a", "A")])
def test_different_values_are_different(one, other):
    assert not equal(one, other)


def test_trailing_zeros_of_a_release_mean_nothing():
    assert within("12.2", "12.2.0", "12.2.0")


@settings(max_examples=300, deadline=None)
@given(SCALARS, SCALARS, SCALARS)
def test_nothing_makes_a_comparison_fail(one, other, third):
    within(one, other, third)
    equal(one, other)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=8), st.text(max_size=8), st.text(max_size=8))
def test_texts_have_a_total_order(a, b, c):
    assert at_most(a, b) or at_most(b, a)
    if at_most(a, b) and at_most(b, c):
        assert at_most(a, c)

"""Values compare as people read them, and nothing makes comparing fail."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.versions import at_most, bound_problem, equal, is_version, version_key, within

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
    ["v9rc", "10", "v12rc", "13"],  # beside others, too
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


TAILS = st.text(max_size=8)
VERSIONS = st.builds("{}{}{}".format, st.sampled_from(["", "v", " "]), st.integers(0, 30), TAILS)
WORDS = st.one_of(
    st.sampled_from(["gcc", "nvme", "", "v", "version 2", "-1.2", ".5", "V1.2", "rc1", "vv1", "٣", "true"]),
    st.text(max_size=8).filter(lambda text: not text.strip().removeprefix("v")[:1].isdigit()),
    st.booleans(),
    st.sampled_from([-1, -0.5, float("inf"), float("nan")]),
)
PLAIN = st.lists(st.integers(0, 12), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@given(VERSIONS, VERSIONS, VERSIONS)
def test_versions_have_a_total_order(a, b, c):
    assert at_most(a, b) or at_most(b, a)
    if at_most(a, b) and at_most(b, c):
        assert at_most(a, c)


@settings(max_examples=300, deadline=None)
@given(WORDS, VERSIONS)
def test_what_is_no_version_meets_no_version_bound_and_is_none(word, version):
    assert not is_version(word)
    for value, bound in ((word, version), (version, word)):
        assert not within(value, bound, None)
        assert not within(value, None, bound)
        assert not within(value, "0", bound)
        assert not within(value, bound, "99")


@pytest.mark.parametrize("version", ["0", "12.2.0-rc1", "v1", "v2Aug2023", " 1", "1abc", 5, 5.5, 0, "2023a"])
def test_what_begins_with_a_digit_is_a_version(version):
    assert is_version(version)
    assert within(version, "0", None)


def padded(numbers, size=4):
    return [*numbers, *[0] * (size - len(numbers))]


@settings(max_examples=400, deadline=None)
@given(PLAIN, PLAIN, PLAIN, st.sampled_from(["{}", "v{}", "{}-rc1", "{}+build"]))
def test_plain_releases_lie_in_a_range_as_lists_of_numbers_do(value, least, most, form):
    text, low, high = (".".join(map(str, numbers)) for numbers in (value, least, most))
    before = form == "{}-rc1"  # a prerelease comes before its release
    assert within(form.format(text), low, None) is (padded(value) >= [*padded(least), *[0] * before])
    assert within(form.format(text), None, high) is (padded(value) <= padded(most))


@pytest.mark.parametrize("bound", ["gcc", "", "-1", True, False, float("nan"), "V2", ".5"])
def test_a_bound_that_nothing_can_meet_has_a_problem_that_says_what_to_write(bound):
    assert "write match" in bound_problem(bound)


@pytest.mark.parametrize("bound", ["1", "v1", "12.2.0-rc1", 5, -5, 0.5, -1e9])
def test_numbers_and_versions_are_bounds(bound):
    assert bound_problem(bound) is None

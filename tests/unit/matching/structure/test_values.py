"""Looking values up finds exactly the facts that judging one by one finds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.matching.structure.values import FieldValues, bits_of, numbers_of
from rainbow_sched.model.request import Equals, Runs, Within
from rainbow_sched.model.versions import equal, within

SCALARS = st.one_of(
    st.sampled_from(["1.10", "1.9", "2", "2.0", "12.2.0-rc1", "2Aug2023", "", "true", "x"]),
    st.integers(-2, 12),
    st.sampled_from([0.25, 1.5, 1.10, 2.0, float("nan"), float("inf")]),
    st.booleans(),
)
HELD = st.lists(st.lists(SCALARS, min_size=1, max_size=2).map(tuple), max_size=8)


def judged(facts, holds):
    return {number for number, values in enumerate(facts) if any(holds(value) for value in values)}


@settings(max_examples=400, deadline=None)
@given(HELD, SCALARS, SCALARS, st.sampled_from(["min", "max", "both"]))
def test_ranges_and_equality_are_what_each_value_says(facts, one, other, ends):
    field = FieldValues()
    for number, values in enumerate(facts):
        field.add(number, values)
    least = one if ends != "max" else None
    most = other if ends != "min" else None
    found = field.meeting(Within("f", least, most), equal)
    assert set(numbers_of(found)) == judged(facts, lambda value: within(value, least, most))
    found = field.meeting(Equals("f", one), equal)
    assert set(numbers_of(found)) == judged(facts, lambda value: equal(value, one))


def test_runs_asks_the_relation_for_each_distinct_value():
    field = FieldValues()
    for number, target in enumerate(("zen2", "zen3", "skylake")):
        field.add(number, (target,))
    found = field.meeting(Runs("f", "zen2"), lambda have, want: have >= want)
    assert found == bits_of([0, 1])

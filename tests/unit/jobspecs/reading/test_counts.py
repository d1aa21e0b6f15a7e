"""Counts in the three forms of RFC 14."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.jobspecs.reading.counts import parse_count, split_evenly
from rainbow_sched.jobspecs.reading.fields import Entry
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.request import Count


@pytest.mark.parametrize(
    ("value", "count", "noted"),
    [
        (4, Count(4), False),
        ("4", Count(4), False),
        ("2-8", Count(2, 8), False),
        ("[2-8]", Count(2, 8), False),
        ("2+", Count(2, None), False),
        ("2-8:1:+", Count(2, 8), False),
        ("1,2,3", Count(1, 3), False),
        ("1-2,3-5", Count(1, 5), False),
        ({"min": 3}, Count(3, None), False),
        ({"min": 3, "max": 30, "operator": "+", "operand": 1}, Count(3, 30), False),
        ("4,9,16,25", Count(4), True),
        ("2-32:2:*", Count(2), True),
        ({"min": 2, "max": 9, "operator": "+", "operand": 3}, Count(2), True),
    ],
)
def test_each_form_is_read_and_steps_are_reported(value, count, noted):
    found, note = parse_count(Entry(value, "count"))
    assert found == count
    assert bool(note) is noted


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            -1,
            True,
            1.0,
            None,
            [],
            "",
            "0",
            "x",
            "8-2",
            "3,2",
            "1,1",
            "01",
            "2-32:2:-",
            "2-32:1:*",
            "1-4:2:^",
            "1-4::+",
        ),
        *({}, {"max": 3}, {"min": 0}, {"min": 3, "max": 2}, {"min": 1, "operator": "+"}, {"min": 1, "operand": 2}),
        *({"min": "1"}, {"min": 1, "mox": 2}, {"min": 1, "max": 9, "operator": "^", "operand": 2}, 2**50, "9" * 15),
    ],
)
def test_what_is_no_count_is_refused_with_its_path(value):
    with pytest.raises(Invalid) as error:
        parse_count(Entry(value, "resources[0].count"))
    assert error.value.where.startswith("resources[0].count")


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 1000), st.integers(1, 50))
def test_an_even_share_is_the_least_that_gives_the_total(total, among):
    share = split_evenly(Count(total), among).min
    assert share * among >= total > (share - 1) * among

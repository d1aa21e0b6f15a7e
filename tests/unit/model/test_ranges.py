"""Ranges of numbers are written and read back, against the plain list of the numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.model.hostlist import parse_idset
from rainbow_sched.model.ranges import format_ranges, parse_range


@given(st.sets(st.integers(0, 60) | st.integers(0, 10**12 - 1)))
def test_what_is_written_is_read_back(numbers: set[int]) -> None:
    text = format_ranges(numbers)
    read = [parse_range(part) for part in text.split(",") if part]
    assert [n for span in read if span for n in range(span[0], span[1] + 1)] == sorted(numbers)
    assert all(span is not None for span in read)
    if text:
        assert parse_idset(text) == sorted(numbers)


@given(st.sets(st.integers(0, 60)))
def test_neighbours_share_a_range(numbers: set[int]) -> None:
    ends = [n for n in numbers if n + 1 not in numbers]
    assert len([part for part in format_ranges(numbers, " ").split(" ") if part]) == len(ends)


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1))
def test_a_range_is_its_two_numbers_in_any_order(first: int, last: int) -> None:
    assert parse_range(f"{first}-{last}") == (first, last)
    assert parse_range(f"{first}") == (first, first)


@pytest.mark.parametrize("text", ["", "-", "1-", "-1", "1-2-3", "a", "1,2", " 1", "1\n", "+1", "٣", "9" * 19])
def test_what_is_no_range_gives_none(text: str) -> None:
    assert parse_range(text) is None


def test_numbers_with_too_many_digits_give_none() -> None:
    assert parse_range("1-999", max_digits=3) == (1, 999)
    assert parse_range("1-1000", max_digits=3) is None
    assert parse_range("1000", max_digits=3) is None

"""Durations as RFC 23 and clocks write them."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.quantities import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2ms", 0.002),
        ("0.1s", 0.1),
        ("30", 30),
        ("1.2h", 4320),
        ("5m", 300),
        ("5d", 432000),
        ("1e2s", 100),
        ("01:30:00", 5400),
        ("30:00", 1800),
        ("1-12:00:00", 129600),
        ("2-12", 216000),
        (" 90s ", 90),
        ("0s", None),
        ("inf", None),
        ("INFINITY", None),
        ("UNLIMITED", None),
    ],
)
def test_durations_are_read_as_the_rfc_and_slurm_mean_them(text, seconds):
    assert parse_duration(text) == seconds


def test_a_bare_number_can_count_in_minutes():
    assert parse_duration("30", plain="m") == 1800
    assert parse_duration("30s", plain="m") == 30


@pytest.mark.parametrize(
    "text", ["", "x", "5x", "-5", "nan", "1:2:3:4", "1-", "5M", "infs", "9" * 400, "1e99d", "12-12-12"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(Invalid):
        parse_duration(text)


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789.:-smhde+ ", max_size=20))
def test_any_text_is_a_duration_or_invalid(text):
    with contextlib.suppress(Invalid):
        assert (parse_duration(text) or 1) > 0

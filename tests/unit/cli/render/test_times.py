"""Durations and times, formatted and parsed."""

import datetime
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.cli.render.times import format_age, format_clock, format_duration, format_stopwatch, parse_time
from rainbow_sched.model.errors import Invalid

NOW = datetime.datetime(2026, 11, 15, 17, 0).astimezone().timestamp()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (12.4, "12s"),
        (59.7, "1.0m"),
        (186, "3.1m"),
        (702, "11.7m"),
        (3599, "1.0h"),
        (9000, "2.5h"),
        (200000, "2.3d"),
    ],
)
def test_durations_are_short(seconds, shown):
    assert format_duration(seconds) == shown


@given(st.floats(0, 1e8))
def test_no_duration_needs_more_than_seven_characters(seconds):
    assert len(format_duration(seconds)) <= 7
    assert len(format_age(seconds)) <= 6


def test_times_of_another_day_include_the_date():
    assert format_clock(NOW + 60, NOW) == "17:01:00"
    assert format_clock(NOW + 86400, NOW) == "2026-11-16 17:00"
    assert format_stopwatch(3675) == "01:01:15"
    assert (format_age(3), format_age(14 * 60), format_age(90 * 60), format_age(3 * 86400)) == ("3s", "14m", "1h", "3d")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", NOW),
        ("+2h", NOW + 7200),
        ("30m", NOW + 1800),
        ("-1d", NOW - 86400),
        ("18:30", NOW + 5400),
        ("09:30", NOW + 16.5 * 3600),
        ("2026-11-15T17:10", NOW + 600),
        ("2026-11-15T12:00:00+00:00", datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC).timestamp()),
    ],
)
def test_times_are_parsed_as_people_write_them(text, at):
    assert parse_time(text, NOW) == at


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "25:00", "0001-01-01", "+inf", "unlimited"])
def test_an_invalid_time_is_refused_with_examples(text):
    with pytest.raises(Invalid, match="is not a time"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("now", "text", "at"),
    [
        ("2027-03-13T12:00-05:00", "09:00", "2027-03-14T09:00-04:00"),  # the clock is put forward in the night between
        ("2027-11-06T12:00-04:00", "09:00", "2027-11-07T09:00-05:00"),
        ("2027-03-13T12:00-05:00", "2027-03-14T02:30", "2027-03-14T03:30-04:00"),  # which no clock shows: never earlier
        ("2027-03-13T12:00-05:00", "2027-11-07T01:30", "2027-11-07T01:30-04:00"),  # which clocks show twice: the first
    ],
)
def test_a_time_of_day_is_what_the_clock_will_show_then(now, text, at, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    assert (
        parse_time(text, datetime.datetime.fromisoformat(now).timestamp())
        == datetime.datetime.fromisoformat(at).timestamp()
    )

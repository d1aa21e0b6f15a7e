"""Format durations and times for people, and parse times such as `+2h`, `-1d` or `2026-11-16T09:00`."""

from __future__ import annotations

import datetime
import re

from rainbow_sched.model.errors import Invalid

_CLOCK = r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?"


def format_duration(seconds: float) -> str:
    """Format a duration as `12s`, `3.1m`, `2.5h` or `1.2d`."""
    seconds = max(0.0, seconds)
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    for unit, size, limit in (("m", 60.0, 60.0), ("h", 3600.0, 24.0)):
        if seconds / size < limit - 0.05:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds / 86400:.1f}d"


def format_age(seconds: float) -> str:
    """Format an age as `3s`, `14m`, `2h` or `5d`."""
    seconds = max(0.0, seconds)
    for unit, size, limit in (("s", 1, 60), ("m", 60, 60), ("h", 3600, 48)):
        if seconds < size * limit:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds // 86400:.0f}d"


def format_stopwatch(seconds: float) -> str:
    """Format a duration as `00:00:08`."""
    whole = int(max(0.0, seconds))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def format_clock(at: float, now: float) -> str:
    """Format a local time of day, with the date if it is not today."""
    when, today = (datetime.datetime.fromtimestamp(value).astimezone() for value in (at, now))
    return when.strftime("%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M")


def parse_time(text: str, now: float) -> float:
    """Return seconds since the epoch: `+2h` and `2h` from now, `-1d` before now, `09:30` (the next one), or ISO."""
    from rainbow_sched.model.quantities import parse_duration

    word = text.strip()
    if word == "now":
        return now
    time_of_day = re.fullmatch(_CLOCK, word)
    if time_of_day:
        return _next(time_of_day, now)
    if re.match(r"\d{4}-\d", word):
        return _iso(word)
    try:
        if ":" in word and word[0] not in "+-":  # an invalid time of day, not a duration
            raise Invalid(word)
        seconds = parse_duration(word.lstrip("+-"))
        if seconds is None and not re.search("[0-9]", word):  # `infinity` is a duration but not a time
            raise Invalid(word)
    except Invalid:
        raise Invalid(f"{text!r} is not a time; write for example +2h, -1d, 09:30 or 2026-11-16T09:00") from None
    return now + (seconds or 0.0) * (-1 if word.startswith("-") else 1)


def _next(matched: re.Match[str], now: float) -> float:
    # Naive local time: daylight saving may change the offset before tomorrow.
    today = datetime.datetime.fromtimestamp(now).astimezone().replace(tzinfo=None)
    at = today.replace(hour=int(matched[1]), minute=int(matched[2]), second=int(matched[3] or 0), microsecond=0)
    if at.timestamp() <= now:
        at += datetime.timedelta(days=1)
    return at.timestamp()


def _iso(word: str) -> float:
    try:
        return datetime.datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{word!r} is not a time: {error}") from None

"""Times as people read and write them: short durations, and moments such as `+2h`, `-1d` or `2026-11-16T09:00`."""

from __future__ import annotations

import datetime
import re

from rainbow_sched.model.errors import Invalid

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")


def short(seconds: float) -> str:
    """`12s`, `3.1m`, `2.5h`, `1.2d`."""
    seconds = max(0.0, seconds)
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    for unit, size, limit in (("m", 60.0, 60.0), ("h", 3600.0, 24.0)):
        if seconds / size < limit - 0.05:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds / 86400:.1f}d"


def ago(seconds: float) -> str:
    """`3s`, `14m`, `2h`, `5d`: how long since something was seen."""
    seconds = max(0.0, seconds)
    for unit, size, limit in (("s", 1, 60), ("m", 60, 60), ("h", 3600, 48)):
        if seconds < size * limit:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds // 86400:.0f}d"


def stopwatch(seconds: float) -> str:
    """`00:00:08`."""
    whole = int(max(0.0, seconds))
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def clock(at: float, now: float) -> str:
    """The local time of day, with the day in front when it is another one."""
    when, today = (datetime.datetime.fromtimestamp(value).astimezone() for value in (at, now))
    return when.strftime("%H:%M:%S" if when.date() == today.date() else "%Y-%m-%d %H:%M")


def moment(text: str, now: float) -> float:
    """Seconds since the epoch: `+2h` and `2h` from now, `-1d` before now, `09:30` (the next one), or an ISO time."""
    from rainbow_sched.jobspecs.reading.durations import parse_duration

    word = text.strip()
    if word == "now":
        return now
    clock_time = _CLOCK.fullmatch(word)
    if clock_time:
        return _next(clock_time, now)
    if re.match(r"\d{4}-\d", word):
        return _iso(word)
    try:
        if ":" in word and word[0] not in "+-":  # a time of day that is none, not a duration
            raise Invalid(word)
        seconds = parse_duration(word.lstrip("+-"))
        if seconds is None and not re.search("[0-9]", word):  # `infinity` is a duration, but leads to no moment
            raise Invalid(word)
    except Invalid:
        raise Invalid(f"{text!r} is not a time; write for example +2h, -1d, 09:30 or 2026-11-16T09:00") from None
    return now + (seconds or 0.0) * (-1 if word.startswith("-") else 1)


def _next(found: re.Match[str], now: float) -> float:
    # Without a zone, which would be today's offset: the clock may be changed before tomorrow.
    today = datetime.datetime.fromtimestamp(now).astimezone().replace(tzinfo=None)
    at = today.replace(hour=int(found[1]), minute=int(found[2]), second=int(found[3] or 0), microsecond=0)
    if at.timestamp() <= now:
        at += datetime.timedelta(days=1)
    return at.timestamp()


def _iso(word: str) -> float:
    try:
        return datetime.datetime.fromisoformat(word).timestamp()
    except (ValueError, OverflowError) as error:
        raise Invalid(f"{word!r} is not a time: {error}") from None

"""Parse durations: `30m`, `1.5h`, `90`, `HH:MM:SS`, `D-HH:MM:SS`."""

from __future__ import annotations

import math
import re

from rainbow_sched.model.errors import Invalid

_UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_STANDARD = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE]([-+]?[0-9]{1,2}))?(ms|s|m|h|d|)")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?")


def parse_duration(text: str, *, plain: str = "s") -> float | None:
    """Return seconds, or None for no limit (`0`, `inf`, `UNLIMITED`); `plain` is the unit of a bare number."""
    word = text.strip()
    if word.lower() in ("inf", "infinity", "unlimited", "infinite"):
        return None
    found = _STANDARD.fullmatch(word)
    if found:
        seconds = float(f"{found[1]}e{found[2] or 0}") * _UNITS[found[3] or plain]
    else:
        seconds = _clock(word)
    if not math.isfinite(seconds) or seconds >= 10**9:
        raise Invalid(f"{text[:40]!r} is too long for a duration")
    return seconds or None


def _clock(word: str) -> float:
    found = _CLOCK.fullmatch(word)
    if found is None or ("-" not in word and ":" not in word):
        raise Invalid(f"{word[:40]!r} is not a duration; write for example 30m, 1.5h, 90s or 1-12:00:00")
    days, hours, minutes, seconds = found.groups()  # D-HH[:MM[:SS]] or HH:MM:SS
    if days is None and seconds is None:  # MM:SS
        hours, minutes, seconds = 0, hours, minutes
    return float(int(days or 0) * 86400 + int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0))

"""Amounts with units, such as `4GB` or `size: 8, unit: GiB`, and durations: `30m`, `1.5h`, `HH:MM:SS`, `D-HH:MM:SS`."""

from __future__ import annotations

import math
import re

from rainbow_sched.model.errors import Invalid

_BYTES: dict[str, int] = {"b": 1, "byte": 1, "bytes": 1}
for _power, _letter in enumerate("kmgtpe", start=1):
    _BYTES[f"{_letter}b"] = 1000**_power
    _BYTES[f"{_letter}ib"] = 1024**_power
    _BYTES[_letter] = 1024**_power  # Slurm's and Flux's bare letters are binary

_AMOUNT = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{0,5})\s*")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE]([-+]?[0-9]{1,2}))?(ms|s|m|h|d|)")
_CLOCK = re.compile(r"(?:([0-9]{1,6})-)?([0-9]{1,6})(?::([0-9]{1,6}))?(?::([0-9]{1,6}))?")


def factor(unit: str) -> int | None:
    """Return the bytes in one `unit`, or None if it is not a unit of bytes."""
    return _BYTES.get(unit.strip().lower())


def in_bytes(amount: int, unit: str) -> int | None:
    """Return `amount` of `unit` in bytes, or None if it is not a unit of bytes."""
    scale = factor(unit)
    return None if scale is None else amount * scale


def parse_bytes(text: str, *, default: str = "MB") -> int:
    """Read `4G`, `512MiB` or `100` (in `default`'s unit) as bytes, rounded up."""
    match = _AMOUNT.fullmatch(text)
    scale = factor(match[2] or default) if match else None
    if match is None or scale is None:
        raise Invalid(f"{text!r} is not an amount of memory; write for example 4G, 512MiB or 2TB")
    whole, _, decimals = match[1].partition(".")
    parts: int = 10 ** len(decimals)
    return -(-int(whole + decimals) * scale // parts)


def human_bytes(amount: int) -> str:
    """Return bytes as text such as `16GiB`, in the largest binary unit that fits, with at most one decimal."""
    scale, unit = 1, "B"
    for candidate in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        size = _BYTES[candidate.lower()]
        if amount < size:
            break
        scale, unit = size, candidate
    return f"{amount // scale}{unit}" if amount % scale == 0 else f"{amount / scale:.1f}{unit}"


def parse_duration(text: str, *, plain: str = "s") -> float | None:
    """Return seconds, or None for no limit (`0`, `inf`, `UNLIMITED`); `plain` is the unit of a bare number."""
    word = text.strip()
    if word.lower() in ("inf", "infinity", "unlimited", "infinite"):
        return None
    found = _DURATION.fullmatch(word)
    if found:
        seconds = float(f"{found[1]}e{found[2] or 0}") * _SECONDS[found[3] or plain]
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

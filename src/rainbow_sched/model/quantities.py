"""Amounts with units, such as a request for `4GB` of a memory vertex with `size: 8, unit: GiB`."""

from __future__ import annotations

import re

from rainbow_sched.model.errors import Invalid

_BYTES: dict[str, int] = {"b": 1, "byte": 1, "bytes": 1}
for _power, _letter in enumerate("kmgtpe", start=1):
    _BYTES[f"{_letter}b"] = 1000**_power
    _BYTES[f"{_letter}ib"] = 1024**_power
    _BYTES[_letter] = 1024**_power  # Slurm's and Flux's bare letters are binary

_AMOUNT = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]{0,5})\s*")


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

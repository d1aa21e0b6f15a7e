"""Suggest the closest known name for an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_MAX_COMPARED_NAMES = 200  # a jobspec can define very many names
_MAX_LISTED_NAMES = 16


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the known name closest to `name`, or None if none is close."""
    import difflib  # slow to import and only needed for errors

    names = sorted(islice(known, _MAX_COMPARED_NAMES))
    return next(iter(difflib.get_close_matches(name[:64], names, n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown name: the closest known name, or a list of the known names."""
    names = sorted(islice(known, _MAX_COMPARED_NAMES))
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near[:60]!r}?"
    return f"; there are {', '.join(name[:40] for name in names[:_MAX_LISTED_NAMES])}" if names else ""

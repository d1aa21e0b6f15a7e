"""A hint for a name that is not known: the nearest one that is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_COMPARED = 200  # a jobspec can define very many names; a hint is not worth comparing with all
_LISTED = 12


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'resources'?` if something is near, else the known names."""
    import difflib  # only an error needs it

    names = sorted(islice(known, _COMPARED))
    near = difflib.get_close_matches(name[:64], names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0][:60]!r}?"
    return f"; known are {', '.join(name[:40] for name in names[:_LISTED])}" if names else ""

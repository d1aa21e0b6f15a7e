"""A hint for a name that is not known: the nearest one that is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

_COMPARED = 200  # a jobspec can define very many names; a hint is not worth comparing with all
_LISTED = 16


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most like `name`, if one is like it at all."""
    import difflib  # only an error needs it

    return next(iter(difflib.get_close_matches(name[:64], sorted(islice(known, _COMPARED)), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to add to "there is no ...": the nearest known name, or those there are."""
    names = sorted(islice(known, _COMPARED))
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near[:60]!r}?"
    return f"; there are {', '.join(name[:40] for name in names[:_LISTED])}" if names else ""

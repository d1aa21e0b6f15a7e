"""Which microarchitecture runs code built for which, from archspec's table; loaded when first asked."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=4096)
def runs(found: str, target: str) -> bool:
    """Can a machine that is a `found` run code built for `target`? Yes if it is the same or a descendant."""
    if found == target:
        return True
    from archspec.cpu import TARGETS  # here, because reading its tables takes a while and few requests need them

    known = TARGETS.get(found)
    return known is not None and any(ancestor.name == target for ancestor in known.ancestors)

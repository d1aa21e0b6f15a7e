"""Results of matching: whether a request fits a cluster now, later or never, and how many slots of it.

`Matches` is the result for a whole fleet, without an object per cluster. `Verdict` is the result for one
cluster, `Explanation` adds reasons (`model/reasons.py`) and changes (`model/changes.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from rainbow_sched.model.changes import Change
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.reasons import Met, Reason


class Fit(enum.StrEnum):
    """Whether a request fits; UNKNOWN means that an exact answer would take too much work."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result for one cluster.

    `slots_now` and `slots_ever`: for a request with one top-level resource, the maximum of that
    resource (slots, nodes, cores) that would fit. For a request with several, 1 if all fit
    together, else 0, because counting copies of competing parts is a packing problem.
    """

    cluster: str
    fit: Fit
    slots_now: int = 0
    slots_ever: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return {**asdict(self), "fit": self.fit.value}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a request fits a cluster or not: reasons by importance, the smallest changes, and met requirements."""

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    changes: tuple[Change, ...] = ()  # each of them alone makes the request fit
    met: tuple[Met, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON values, with each reason and change as a sentence, too."""
        return {
            **self.verdict.to_json(),
            "reasons": [reason.to_json() | {"sentence": reason.sentence()} for reason in self.reasons],
            "changes": [change.to_json() | {"sentence": change.sentence()} for change in self.changes],
            "met": [met.to_json() | {"sentence": met.sentence()} for met in self.met],
        }


class Matches:
    """The result of matching one request with a fleet; verdicts of single clusters are built on demand."""

    def __init__(
        self,
        names: tuple[str, ...],
        now: Collection[int],
        ever: Collection[int],
        unknown: Collection[int],
        count: Callable[[str], tuple[int, int]],
    ) -> None:
        """`now`, `ever` (includes `now`) and `unknown` are ordered positions in `names`; `count` counts slots."""
        self.names = names  # all clusters, in a fixed order
        self._now = now
        self._ever = ever
        self._unknown = unknown
        self._count = count

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Verdict]:
        """Iterate over the verdicts in the order of `names`."""
        return (self.verdict(name) for name in self.names)

    @property
    def now(self) -> tuple[str, ...]:
        """Return the clusters that the request fits now."""
        return tuple(self.names[i] for i in self._now)

    @cached_property
    def ever(self) -> tuple[str, ...]:
        """Return the clusters that the request fits when they are empty; includes those of `now`."""
        return self.names if len(self._ever) == len(self.names) else tuple(self.names[i] for i in self._ever)

    @property
    def all_now(self) -> bool:
        """Return True if the request fits now wherever it fits at all."""
        return len(self._now) == len(self._ever)

    def fit(self, cluster: str) -> Fit:
        """Return whether the request fits one cluster."""
        try:
            return self._fits[cluster]
        except KeyError:
            raise NotFound(f"cluster {cluster!r} was not matched") from None

    @cached_property
    def _fits(self) -> dict[str, Fit]:
        fits = dict.fromkeys(self.names, Fit.NEVER)
        fits.update(dict.fromkeys(self.ever, Fit.LATER))
        fits.update((self.names[i], Fit.UNKNOWN) for i in self._unknown)
        fits.update(dict.fromkeys(self.now, Fit.NOW))
        return fits

    def verdict(self, cluster: str) -> Verdict:
        """Return the verdict of one cluster."""
        fit = self.fit(cluster)
        now, ever = self._count(cluster)
        return Verdict(cluster, fit, now, ever)

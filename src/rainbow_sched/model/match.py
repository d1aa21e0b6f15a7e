"""What matching answers: does a request fit a cluster now, later or never, and how many slots of it.

`Matches` answers for a whole fleet at once without an object per cluster; `Verdict` is one
cluster's answer and `Explanation` the same with reasons (`model/reasons.py`) and changes
(`model/changes.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rainbow_sched.model.changes import Change
from rainbow_sched.model.errors import NotFound
from rainbow_sched.model.reasons import Met, Reason, When, reason_from_json


class Fit(enum.StrEnum):
    """The four answers; UNKNOWN says that an exact answer would take unbounded work."""

    NOW = "now"
    LATER = "later"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One cluster's answer.

    `slots_now` and `slots_ever` say how much of it would fit. A request with one top-level
    resource: the most of that resource (slots, nodes, cores) that would fit, whatever was
    asked. A request with several: 1 if all fit together, else 0, because counting copies of
    competing parts is a packing problem of its own.
    """

    cluster: str
    fit: Fit
    slots_now: int = 0
    slots_ever: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "cluster": self.cluster,
            "fit": self.fit.value,
            "slots_now": self.slots_now,
            "slots_ever": self.slots_ever,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Verdict:
        """From what `to_json` wrote."""
        return Verdict(raw["cluster"], Fit(raw["fit"]), raw["slots_now"], raw["slots_ever"])


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a cluster fits or not: reasons by importance, the smallest changes, what was met where."""

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    changes: tuple[Change, ...] = ()  # each one alone, applied to the request, makes it fit
    met: tuple[Met, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values; changes carry their sentence, since only the request they came from can take them."""
        return {
            **self.verdict.to_json(),
            "reasons": [reason.to_json() | {"sentence": reason.sentence()} for reason in self.reasons],
            "changes": [change.to_json() | {"sentence": change.sentence()} for change in self.changes],
            "met": [met.to_json() | {"sentence": met.sentence()} for met in self.met],
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Explanation:
        """From what `to_json` wrote."""
        return Explanation(
            Verdict.from_json(raw),
            tuple(reason_from_json(item) for item in raw["reasons"]),
            tuple(Change.from_json(item) for item in raw["changes"]),
            tuple(Met.from_json(item) for item in raw["met"]),
        )


class Positions(Protocol):
    """Ordered numbers: a sequence or a column."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class Matches:
    """The answer of a fleet to one request: names by answer, and one cluster's verdict when asked."""

    __slots__ = ("_count", "_ever", "_ever_names", "_fits", "_names", "_now", "_unknown")

    def __init__(
        self,
        names: tuple[str, ...],
        now: Positions,
        ever: Positions,
        unknown: Positions = (),
        count: Callable[[str], tuple[int, int]] | None = None,
    ) -> None:
        """`now`, `ever` (`now` included) and `unknown` are ordered positions in `names`; `count` counts slots."""
        self._names = names
        self._now = now
        self._ever = ever
        self._unknown = unknown
        self._count = count
        self._fits: dict[str, Fit] | None = None
        self._ever_names: tuple[str, ...] | None = None

    def of(self, names: tuple[str, ...]) -> bool:
        """True if this answers for exactly these, the same object."""
        return self._names is names

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[Verdict]:
        """Every cluster's verdict, in the order of `names`."""
        return (self.verdict(name) for name in self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """Every cluster that was asked, in a fixed order."""
        return self._names

    @property
    def now(self) -> tuple[str, ...]:
        """Those that fit at this moment."""
        return tuple(self._names[i] for i in self._now)

    @property
    def ever(self) -> tuple[str, ...]:
        """Those whose whole graph fits, busy or not; those of `now` are among them."""
        if self._ever_names is None:
            all_of_them = len(self._ever) == len(self._names)
            self._ever_names = self._names if all_of_them else tuple(self._names[i] for i in self._ever)
        return self._ever_names

    @property
    def all_now(self) -> bool:
        """True if each that fits ever fits now."""
        return len(self._now) == len(self._ever)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those for which an exact answer would take unbounded work."""
        return tuple(self._names[i] for i in self._unknown)

    def fit(self, cluster: str) -> Fit:
        """One cluster's answer without its slots."""
        if self._fits is None:
            self._fits = dict.fromkeys(self._names, Fit.NEVER)
            self._fits.update(dict.fromkeys(self.ever, Fit.LATER))
            self._fits.update(dict.fromkeys(self.unknown, Fit.UNKNOWN))
            self._fits.update(dict.fromkeys(self.now, Fit.NOW))
        try:
            return self._fits[cluster]
        except KeyError:
            raise NotFound(f"cluster {cluster!r} was not asked") from None

    def verdict(self, cluster: str) -> Verdict:
        """One cluster's answer with its slots."""
        fit = self.fit(cluster)
        now, ever = self._count(cluster) if self._count else (0, 0)
        return Verdict(cluster, fit, now, ever)


__all__ = ["Change", "Explanation", "Fit", "Matches", "Met", "Reason", "Verdict", "When"]

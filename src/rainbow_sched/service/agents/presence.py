"""Which clusters' agents are there: who is in a Sync now, who spoke last when, and when silence begins to count."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

COMES_BACK = 1.0  # seconds in which an agent that was answered calls again


@dataclass(slots=True)
class Presence:
    """Seen from this process, on its own clock; after a start everybody has fresh grace."""

    heartbeat: float
    grace: float
    started_at: float
    graced_at: float = -math.inf  # when all were last given fresh grace, because most fell silent together
    _spoke: dict[str, float] = field(default_factory=dict)
    _inside: Counter[str] = field(default_factory=Counter)

    def enters(self, cluster: str, now: float) -> None:
        """An agent's Sync begins."""
        self._spoke[cluster] = now
        self._inside[cluster] += 1

    def leaves(self, cluster: str, now: float) -> None:
        """An agent's Sync was answered or cut."""
        if cluster in self._spoke:  # else it was deleted meanwhile
            self._spoke[cluster] = max(now, self._spoke[cluster])
        self._inside[cluster] -= 1
        if self._inside[cluster] <= 0:
            del self._inside[cluster]

    def reachable(self, now: float) -> set[str]:
        """Clusters that can be asked something: their agent is in a Sync, or was a moment ago and is coming back."""
        return {name for name, spoke in self._spoke.items() if name in self._inside or now - spoke < COMES_BACK}

    def spoke_at(self, cluster: str) -> float | None:
        """When the agent last spoke to this process."""
        return self._spoke.get(cluster)

    def interval(self) -> float:
        """How often each agent should speak: the more agents, the less often."""
        return self.heartbeat * max(1.0, len(self._spoke) / 1_000)

    def silent(self, cluster: str, now: float) -> bool:
        """True if an agent that must be there has been silent for too long, this process's own downtime not counted."""
        return self.silence(cluster, now) > self.interval() + self.grace

    def silence(self, cluster: str, now: float) -> float:
        """Seconds for which an agent has said nothing, this process's own downtime and all grace not counted."""
        if self._inside[cluster] > 0:
            return 0.0
        return now - max(self._spoke.get(cluster, self.started_at), self.started_at, self.graced_at)

    def back_since_grace(self, cluster: str) -> bool:
        """True if an agent is there that spoke after all were given grace."""
        return self._inside[cluster] > 0 or self._spoke.get(cluster, -math.inf) > self.graced_at

    def missed(self, cluster: str, now: float) -> bool:
        """True if the agent that spoke last is gone for long, whatever grace all were given: another one knocks."""
        if self._inside[cluster] > 0:
            return False
        return now - self._spoke.get(cluster, self.started_at) > self.interval() + self.grace

    def slept(self, seconds: float, now: float) -> None:
        """The machine slept so long until now: that was no silence of theirs, and everybody has fresh grace."""
        self.started_at = now
        for cluster in self._spoke:
            self._spoke[cluster] += seconds

    def forget(self, cluster: str) -> None:
        """The cluster is gone."""
        self._spoke.pop(cluster, None)

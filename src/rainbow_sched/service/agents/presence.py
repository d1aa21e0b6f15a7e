"""Presence of agents: open Syncs, last contact, and for how long an agent has been silent."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

RECONNECT_SECONDS = 1.0  # in which an answered agent calls again


@dataclass(slots=True)
class Presence:
    """Presence as seen from this process; after a start, all agents get a new grace period."""

    heartbeat: float
    grace: float
    started_at: float
    grace_given_at: float = -math.inf  # start of the last grace period for all, when most fell silent together
    _last_contact: dict[str, float] = field(default_factory=dict)
    _open_syncs: Counter[str] = field(default_factory=Counter)

    def sync_started(self, cluster: str, now: float) -> None:
        self._last_contact[cluster] = now
        self._open_syncs[cluster] += 1

    def sync_ended(self, cluster: str, now: float) -> None:
        if cluster in self._last_contact:  # unless it was removed meanwhile
            self._last_contact[cluster] = max(now, self._last_contact[cluster])
        self._open_syncs[cluster] -= 1
        if self._open_syncs[cluster] <= 0:
            del self._open_syncs[cluster]

    def reachable(self, now: float) -> set[str]:
        """Return the clusters whose agent is in a Sync, or has just been answered and will reconnect."""
        return {
            name
            for name, contact in self._last_contact.items()
            if name in self._open_syncs or now - contact < RECONNECT_SECONDS
        }

    def last_contact(self, cluster: str) -> float | None:
        """Return when the agent last contacted this process."""
        return self._last_contact.get(cluster)

    def interval(self) -> float:
        """Return the heartbeat interval; it grows with the number of agents."""
        return self.heartbeat * max(1.0, len(self._last_contact) / 1_000)

    def silent(self, cluster: str, now: float) -> bool:
        """Return True if the agent has been silent for too long."""
        return self.silence(cluster, now) > self.interval() + self.grace

    def silence(self, cluster: str, now: float) -> float:
        """Return the seconds since the last contact; downtime of this process and grace periods do not count."""
        if self._open_syncs[cluster] > 0:
            return 0.0
        return now - max(self._last_contact.get(cluster, self.started_at), self.started_at, self.grace_given_at)

    def back_since_grace(self, cluster: str) -> bool:
        """Return True if the agent made contact after the last grace period was given to all."""
        return self._open_syncs[cluster] > 0 or self._last_contact.get(cluster, -math.inf) > self.grace_given_at

    def is_gone(self, cluster: str, now: float) -> bool:
        """Return True if the last agent is gone, ignoring grace periods: another agent wants to take over."""
        if self._open_syncs[cluster] > 0:
            return False
        return now - self._last_contact.get(cluster, self.started_at) > self.interval() + self.grace

    def slept(self, seconds: float, now: float) -> None:
        """Exclude the seconds for which this machine was suspended from all silences."""
        self.started_at = now
        for cluster in self._last_contact:
            self._last_contact[cluster] += seconds

    def forget(self, cluster: str) -> None:
        """Drop a removed cluster."""
        self._last_contact.pop(cluster, None)

"""One attempt to run a job on one cluster, guarded by a fencing token, and its state machine."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class AttemptState(enum.StrEnum):
    """State of an attempt. The live states are in order: an attempt may skip states, but never go back."""

    OFFERED = "offered"
    LEASED = "leased"  # given to a receiver or agent, not yet accepted
    ACCEPTED = "accepted"  # confirmed: only a report of the agent, or a silence beyond its patience, ends it
    SUBMITTED = "submitted"  # the cluster's manager has it
    RUNNING = "running"
    FINISHING = "finishing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    RETURNED = "returned"
    LAPSED = "lapsed"
    PREEMPTED = "preempted"
    LOST = "lost"
    HANDED_OFF = "handed_off"

    @property
    def live(self) -> bool:
        """Return True if the attempt may still run."""
        return self in LIVE


LIVE: tuple[AttemptState, ...] = (
    AttemptState.OFFERED,
    AttemptState.LEASED,
    AttemptState.ACCEPTED,
    AttemptState.SUBMITTED,
    AttemptState.RUNNING,
    AttemptState.FINISHING,
)
_RANK = {state: i for i, state in enumerate(LIVE)}
BEFORE_CONFIRM = frozenset({AttemptState.OFFERED, AttemptState.LEASED})
_ENDS_BEFORE = frozenset({AttemptState.WITHDRAWN, AttemptState.RETURNED, AttemptState.LAPSED})
_ENDS_AFTER = frozenset(
    {AttemptState.SUCCEEDED, AttemptState.FAILED, AttemptState.CANCELLED, AttemptState.PREEMPTED, AttemptState.LOST}
)
ENDS: Mapping[AttemptState, frozenset[AttemptState]] = {
    AttemptState.OFFERED: _ENDS_BEFORE,
    AttemptState.LEASED: _ENDS_BEFORE | {AttemptState.HANDED_OFF},
    **{state: _ENDS_AFTER | {AttemptState.RETURNED} for state in LIVE[2:]},
}


def is_allowed(before: AttemptState, following: AttemptState) -> bool:
    """Return True if an attempt may go from `before` to `following`."""
    if before not in _RANK:
        return before is AttemptState.LOST and following in _ENDS_AFTER  # a late report of a lost attempt is accepted
    if following in _RANK:
        return _RANK[following] > _RANK[before]
    return following in ENDS[before]


class Failure(enum.StrEnum):
    """Why an attempt failed; `outcome` counts by it."""

    EXIT = "exit"  # the job ended with an exit code other than 0, or by a signal
    TIME_LIMIT = "time-limit"
    MEMORY = "memory"
    LAUNCH = "launch"  # the manager could not start it
    REFUSED = "refused"  # the manager refused it before it ran
    NODE = "node"  # a node that it ran on failed
    UNKNOWN = "outcome-unknown"  # the manager has no record of its end
    LOST = "lost"


class Outcome(enum.StrEnum):
    """What the end of an attempt says about its run. It decides whether the next attempt uses a retry or a rerun."""

    NOT_RUN = "not-run"  # it never ran: the next attempt uses neither
    FAILED = "failed"  # it ran and failed: the next attempt uses a retry
    UNKNOWN = "unknown"  # it may have run in full or in part: the next attempt uses a rerun
    FINAL = "final"  # there is no next attempt


_OUTCOMES: Mapping[AttemptState, Outcome] = {
    AttemptState.RETURNED: Outcome.NOT_RUN,
    AttemptState.LAPSED: Outcome.NOT_RUN,
    AttemptState.WITHDRAWN: Outcome.NOT_RUN,
    AttemptState.PREEMPTED: Outcome.UNKNOWN,
    AttemptState.LOST: Outcome.UNKNOWN,
}
# A failed node may only have lost its connection to the manager; the job may still run on it.
_UNKNOWN_FAILURES = frozenset({Failure.UNKNOWN, Failure.LOST, Failure.NODE})
NEVER_LAUNCHED = frozenset({Failure.LAUNCH, Failure.REFUSED})


def outcome(state: AttemptState, failure: Failure | None) -> Outcome:
    """Return the outcome of an attempt that ended in `state`."""
    if state is AttemptState.FAILED:
        return Outcome.UNKNOWN if failure in _UNKNOWN_FAILURES else Outcome.FAILED
    return _OUTCOMES.get(state, Outcome.FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt as stored. (job, n) identifies it; `token` is its fencing token."""

    job: int
    n: int
    cluster: str
    token: str
    state: AttemptState
    created_at: float
    lease_until: float | None = None
    accepted_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    failure: Failure | None = None
    reason: str = ""
    native_id: str = ""
    suspect: bool = False  # the cluster is silent; cleared by the agent's next report
    holder: str = ""  # holder of the lease: an agent's epoch, or a call of a prototype receiver
    guarded: bool = False  # the cluster ends it by itself when it loses contact, even if the agent has died
    nodes: str = ""  # hostlist of the nodes that the agent reported
    code: str = ""  # code of the reason for a return: wrong-nodes

    @property
    def tag(self) -> str:
        """Return the name of the job in the cluster's manager."""
        return f"rb-{self.job}-{self.n}"

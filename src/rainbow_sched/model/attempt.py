"""One try to run a job on one cluster, guarded by a fencing token, and every arrow between its states."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class AttemptState(enum.StrEnum):
    """Where an attempt is. Order of the live ones is the order of life: skips forward are allowed, never back."""

    OFFERED = "offered"
    LEASED = "leased"  # given to a receiver or agent, not yet accepted
    ACCEPTED = "accepted"  # confirmed: from here only the agent's word ends it
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
        """It may still run."""
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
    """True if an attempt may go from `before` to `following`."""
    if before not in _RANK:
        return before is AttemptState.LOST and following in _ENDS_AFTER  # a late report of a lost attempt, adopted
    if following in _RANK:
        return _RANK[following] > _RANK[before]
    return following in ENDS[before]


class Failure(enum.StrEnum):
    """Why an attempt failed; `outcome` counts by it."""

    EXIT = "exit"  # the job itself ended with a code other than 0, or by a signal
    TIME_LIMIT = "time-limit"
    MEMORY = "memory"
    LAUNCH = "launch"  # the manager could not start it
    REFUSED = "refused"  # the manager refused it before it ran
    NODE = "node"  # the machine under it failed
    UNKNOWN = "outcome-unknown"  # the manager has no record of how it ended
    LOST = "lost"


class Outcome(enum.StrEnum):
    """What the end of an attempt says about its run. It decides which number of further runs is used up."""

    NOT_RUN = "not-run"  # it certainly never ran: the next attempt costs nothing
    FAILED = "failed"  # it certainly failed: the next attempt is one of the job's retries
    UNKNOWN = "unknown"  # it may have run, wholly or in part: the next attempt is one of the job's reruns
    FINAL = "final"  # no attempt follows


_OUTCOMES: Mapping[AttemptState, Outcome] = {
    AttemptState.RETURNED: Outcome.NOT_RUN,
    AttemptState.LAPSED: Outcome.NOT_RUN,
    AttemptState.WITHDRAWN: Outcome.NOT_RUN,
    AttemptState.PREEMPTED: Outcome.UNKNOWN,
    AttemptState.LOST: Outcome.UNKNOWN,
}
# A node that failed may only be cut off from its manager, with the run still on it.
_UNKNOWN_FAILURES = frozenset({Failure.UNKNOWN, Failure.LOST, Failure.NODE})
NEVER_LAUNCHED = frozenset({Failure.LAUNCH, Failure.REFUSED})


def outcome(state: AttemptState, failure: Failure | None) -> Outcome:
    """Return what an attempt that ended in `state` says about its run."""
    if state is AttemptState.FAILED:
        return Outcome.UNKNOWN if failure in _UNKNOWN_FAILURES else Outcome.FAILED
    return _OUTCOMES.get(state, Outcome.FINAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One row of the hand-over: (job, n) is its name, `token` its fence."""

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
    suspect: bool = False  # the cluster is silent; lifts when the agent speaks again
    guarded: bool = False  # the cluster itself ends it when it is out of touch, whatever becomes of the agent
    nodes: str = ""  # hostlist: where the manager runs it, as its agent reported
    code: str = ""  # typed reason of a return: wrong-nodes
    holder: str = ""  # who leased it: an agent's epoch, or a prototype receiver's call

    @property
    def tag(self) -> str:
        """The name under which the cluster's manager knows it."""
        return f"rb-{self.job}-{self.n}"

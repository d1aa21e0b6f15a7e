"""The state machine of a job.

`TRANSITIONS` is the only definition of the allowed transitions; the diagram in `docs/protocol.md`
is drawn from it. Only `service/lifecycle.py` changes the state of a stored job.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from rainbow_sched.model.errors import Conflict


class JobState(enum.StrEnum):
    """State of a job."""

    HELD = "held"  # waits for a release, a dependency, a time, or a cluster that fits
    QUEUED = "queued"  # ready to be scheduled
    BOUND = "bound"  # a cluster was chosen and an attempt is live
    CANCELLING = "cancelling"  # cancelled, not yet confirmed by the cluster
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INFEASIBLE = "infeasible"  # no cluster could ever run it, and its owner asked to fail fast
    EXPIRED = "expired"  # its deadline passed
    HANDED_OFF = "handed_off"  # a prototype receiver accepted it; its end stays unknown

    @property
    def terminal(self) -> bool:
        """Return True if no other state can follow."""
        return self in TERMINAL


class JobEvent(enum.StrEnum):
    """Event of a job. `UPDATED` reports a change of an attempt and keeps the job's state."""

    SUBMITTED = "submitted"
    HELD = "held"
    RELEASED = "released"
    BOUND = "bound"
    UNBOUND = "unbound"  # the attempt ended without a result; the job is scheduled again
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCEL_ASKED = "cancel_asked"
    CANCELLED = "cancelled"
    INFEASIBLE = "infeasible"
    EXPIRED = "expired"
    HANDED_OFF = "handed_off"
    UPDATED = "updated"


S, E = JobState, JobEvent
TRANSITIONS: Mapping[tuple[JobState, JobEvent], JobState] = {  # an absent pair is illegal
    (S.HELD, E.RELEASED): S.QUEUED,
    (S.HELD, E.CANCELLED): S.CANCELLED,
    (S.HELD, E.EXPIRED): S.EXPIRED,
    (S.HELD, E.INFEASIBLE): S.INFEASIBLE,
    (S.HELD, E.FAILED): S.FAILED,  # a dependency can no longer be met
    (S.HELD, E.SUCCEEDED): S.SUCCEEDED,  # an attempt declared lost had succeeded
    (S.QUEUED, E.HELD): S.HELD,
    (S.QUEUED, E.BOUND): S.BOUND,
    (S.QUEUED, E.CANCELLED): S.CANCELLED,
    (S.QUEUED, E.EXPIRED): S.EXPIRED,
    (S.QUEUED, E.INFEASIBLE): S.INFEASIBLE,
    (S.QUEUED, E.FAILED): S.FAILED,  # no retries left
    (S.QUEUED, E.SUCCEEDED): S.SUCCEEDED,  # an attempt declared lost had succeeded
    (S.BOUND, E.UNBOUND): S.QUEUED,
    (S.BOUND, E.SUCCEEDED): S.SUCCEEDED,
    (S.BOUND, E.FAILED): S.FAILED,
    (S.BOUND, E.CANCEL_ASKED): S.CANCELLING,
    (S.BOUND, E.HANDED_OFF): S.HANDED_OFF,
    (S.CANCELLING, E.SUCCEEDED): S.SUCCEEDED,  # it finished first
    (S.CANCELLING, E.FAILED): S.FAILED,
    (S.CANCELLING, E.CANCELLED): S.CANCELLED,
    (S.CANCELLING, E.EXPIRED): S.EXPIRED,
    (S.CANCELLING, E.HANDED_OFF): S.HANDED_OFF,
}
del S, E
TERMINAL = frozenset(JobState).difference(state for state, _ in TRANSITIONS)


def next_state(state: JobState, event: JobEvent) -> JobState:
    """Return the state after `event`; raise `Conflict` if there is no such transition."""
    if event is JobEvent.UPDATED and not state.terminal:
        return state
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise Conflict(f"a job that is {state} cannot be {event}")
    return following

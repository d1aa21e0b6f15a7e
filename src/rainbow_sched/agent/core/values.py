"""Values of the agent: local attempts with their phases, and answers of the manager."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.protocol.messages import AttemptRef, Offer, ReportedFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of an attempt."""

    state: AttemptState  # a returned attempt never ran and never will run here
    exit_code: int | None = None  # 128 + n for signal n
    failure: Failure | None = None
    reason: str = ""
    started_at: float | None = None  # seconds since the epoch
    ended_at: float | None = None
    code: str = ""  # code of a returned attempt: `WRONG_NODES`


class Phase(enum.StrEnum):
    """Phase of a local attempt; the transitions are in `STEPS`."""

    OFFERED = "offered"  # checked; its record is being written
    ACCEPTED = "accepted"  # in the journal; every Sync accepts it until the server confirms
    CONFIRMED = "confirmed"  # confirmed by the server; the intent to submit is being written
    INTENT = "intent"  # the intent is in the journal; from here on the manager may have it
    SUBMITTED = "submitted"
    RUNNING = "running"
    ENDED = "ended"  # the result is being written
    FINISHED = "finished"  # the result is in the journal; it is reported until the server has stored it


class AttemptStep(enum.StrEnum):
    """An event that moves a local attempt to its next phase."""

    OFFER_STORED = "offer-stored"
    CONFIRM = "confirm"
    INTENT_STORED = "intent-stored"
    SUBMIT = "submit"
    RUN = "run"
    END = "end"
    END_STORED = "end-stored"


STEPS: Mapping[
    tuple[Phase, AttemptStep], Phase
] = {  # an absent pair has no effect: late and repeated messages are normal
    (Phase.OFFERED, AttemptStep.OFFER_STORED): Phase.ACCEPTED,
    (Phase.ACCEPTED, AttemptStep.CONFIRM): Phase.CONFIRMED,
    (Phase.CONFIRMED, AttemptStep.INTENT_STORED): Phase.INTENT,
    (Phase.INTENT, AttemptStep.SUBMIT): Phase.SUBMITTED,
    (Phase.INTENT, AttemptStep.RUN): Phase.RUNNING,
    (Phase.SUBMITTED, AttemptStep.RUN): Phase.RUNNING,
    (Phase.OFFERED, AttemptStep.END): Phase.ENDED,  # cancelled before it was submitted
    (Phase.ACCEPTED, AttemptStep.END): Phase.ENDED,
    (Phase.CONFIRMED, AttemptStep.END): Phase.ENDED,
    (Phase.INTENT, AttemptStep.END): Phase.ENDED,
    (Phase.SUBMITTED, AttemptStep.END): Phase.ENDED,
    (Phase.RUNNING, AttemptStep.END): Phase.ENDED,
    (Phase.ENDED, AttemptStep.END_STORED): Phase.FINISHED,
}
WITH_MANAGER = frozenset({Phase.INTENT, Phase.SUBMITTED, Phase.RUNNING})
UNCONFIRMED = frozenset({Phase.OFFERED, Phase.ACCEPTED})
_REPORTED_STATES: Mapping[Phase, AttemptState] = {
    Phase.OFFERED: AttemptState.LEASED,
    Phase.ACCEPTED: AttemptState.LEASED,
    Phase.SUBMITTED: AttemptState.SUBMITTED,
    Phase.RUNNING: AttemptState.RUNNING,
}


class StopReason(enum.StrEnum):
    """Why a local attempt is to end early."""

    NONE = ""
    CANCEL = "cancel"  # requested by its owner or an operator
    KILL = "kill"  # the server has dropped it: its token is stale
    GUARD = "guard"  # no contact for so long that the server may start it elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAttempt:
    """An attempt that this agent has accepted or is accepting. Immutable."""

    offer: Offer
    phase: Phase = Phase.OFFERED
    native: str = ""  # the manager's job id
    result: Result | None = None
    stop_reason: StopReason = StopReason.NONE
    reported: str = ""  # the last reported state that the server answered
    unknown: str = ""  # a reported state that the server did not know; reported again to another server process
    acked: bool = False  # the server has stored the end
    started_at: float | None = None
    nodes: str = ""  # hostlist of its nodes; empty: not known
    sizes: tuple[int, int] = (0, 0)  # bytes of stdout and stderr
    sent: tuple[int, int] = (0, 0)  # bytes stored by the server
    busy: str = ""  # "submit" or "lookup": an open call to the manager
    act_at: float | None = None  # when to look up or cancel again
    ended_clock: float = 0.0  # the agent's clock at the end

    @property
    def ref(self) -> AttemptRef:
        return self.offer.ref

    @property
    def state(self) -> AttemptState:
        """Return the state as reported to the server."""
        if self.result is not None:
            return self.result.state
        return _REPORTED_STATES.get(self.phase, AttemptState.ACCEPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAttempt:
    """A finished attempt: its result, or why it was rejected."""

    result: Result | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The manager's state of one job."""

    tag: str
    phase: Phase  # SUBMITTED (pending), RUNNING, or ENDED with a result
    native: str = ""
    result: Result | None = None
    started_at: float | None = None
    sizes: tuple[int, int] = (0, 0)
    nodes: str = ""  # hostlist of its nodes; empty: not known


@dataclass(frozen=True, slots=True)
class JobFound:
    """The manager has a job with this tag."""

    update: Update


@dataclass(frozen=True, slots=True)
class Absent:
    """The manager has no job with this tag. `never`: it certainly never had one."""

    never: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The lookup failed and is to be repeated."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts(ReportedFacts):
    """State of the cluster as seen by its manager; two that differ only in what is not reported are equal."""

    manager: str = field(compare=False)
    state: Mapping[str, object] = field(default_factory=dict)
    shape: str = field(default="", compare=False)  # changes with the cluster's hardware; empty: not known

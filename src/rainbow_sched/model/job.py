"""A job, its states, and every arrow between them.

Rule: what may follow what stands in `TRANSITIONS` and nowhere else. `service/lifecycle.py`
is the one door through which a stored job moves; the picture in `docs/protocol.md` is
drawn from this table.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.attempt import NEVER_LAUNCHED, Failure
from rainbow_sched.model.errors import Conflict, Invalid, TooLarge

MAX_NAME = 256
MAX_LABELS = 64
MAX_TERMS = 64 * 1024
MAX_PRIORITY = 1_000_000
MAX_CLUSTERS = 1_000  # named by one job
MAX_DEPENDENCIES = 1_000
END_OF_TIME = 253_402_300_800.0  # the year 10000, in seconds since the epoch
MAX_SIGNATURE = 4_096
MAX_RUNS_AGAIN = 100  # retries, and reruns
DEFAULT_RERUNS = 3  # of a job that may be run again after an unknown outcome, when no number is given
RERUNS_BEFORE = 9  # of such a job that was stored before reruns had a number: as many as its signature allows


class JobState(enum.StrEnum):
    """Where a job is in its life."""

    HELD = "held"  # waits for something: a hold, a dependency, a time, or a cluster that fits
    QUEUED = "queued"  # ready to be decided
    BOUND = "bound"  # a cluster was chosen and an attempt is live
    CANCELLING = "cancelling"  # is to end; the cluster has not confirmed it yet
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INFEASIBLE = "infeasible"  # no cluster could ever run it, and its owner asked to fail fast
    EXPIRED = "expired"  # its deadline passed
    HANDED_OFF = "handed_off"  # a prototype receiver accepted it: the cluster owns it, its end is unknown

    @property
    def terminal(self) -> bool:
        """Nothing follows."""
        return self in TERMINAL


TERMINAL = frozenset(
    {
        JobState.SUCCEEDED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.INFEASIBLE,
        JobState.EXPIRED,
        JobState.HANDED_OFF,
    }
)


class JobEvent(enum.StrEnum):
    """What can happen to a job. `UPDATED` events carry news of an attempt and leave the state as it is."""

    SUBMITTED = "submitted"
    HELD = "held"
    RELEASED = "released"
    BOUND = "bound"
    UNBOUND = "unbound"  # the attempt ended without a result; the job is to be decided again
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
    (S.HELD, E.FAILED): S.FAILED,  # a dependency that can no longer come true
    (S.HELD, E.SUCCEEDED): S.SUCCEEDED,  # an attempt that was given up as lost had succeeded
    (S.QUEUED, E.HELD): S.HELD,
    (S.QUEUED, E.BOUND): S.BOUND,
    (S.QUEUED, E.CANCELLED): S.CANCELLED,
    (S.QUEUED, E.EXPIRED): S.EXPIRED,
    (S.QUEUED, E.INFEASIBLE): S.INFEASIBLE,
    (S.QUEUED, E.FAILED): S.FAILED,  # its retry budget is spent
    (S.QUEUED, E.SUCCEEDED): S.SUCCEEDED,  # the same
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


def next_state(state: JobState, event: JobEvent) -> JobState:
    """The state that `event` leads to; raise Conflict if no arrow allows it."""
    if event is JobEvent.UPDATED and not state.terminal:
        return state
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise Conflict(f"a job that is {state} cannot be {event}")
    return following


class Delivery(enum.StrEnum):
    """Whether a job may be launched again when the outcome of a run is unknown."""

    AT_MOST_ONCE = "at-most-once"  # no: only after a failure that is certain
    AT_LEAST_ONCE = "at-least-once"  # yes: it has reruns


class Hold(enum.StrEnum):
    """What a held job waits for."""

    USER = "user"  # `rainbow release`
    DEPENDENCY = "dependency"
    TIME = "time"  # start-after
    NOTHING_FITS = "nothing-fits"  # no cluster fits now; decided again when one changes
    RESTORED = "restored"  # the database was restored, and clusters that may have run it have not reported
    MAY_HAVE_RUN = "may-have-run"  # the same, and one of them never will: `rainbow release`


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions under which a job is to run: everything a submitter may say beside the request itself."""

    priority: int = 0
    delivery: Delivery = Delivery.AT_MOST_ONCE  # at-least-once exactly if there are reruns
    retries: int = 0  # further runs after a known failure
    hold: bool = False
    start_after: float | None = None
    deadline: float | None = None
    fail_fast: bool = False  # no cluster could ever run it: INFEASIBLE at once, instead of waiting
    policy: str = ""  # empty: the server's default
    policy_options: Mapping[str, str] = field(default_factory=dict)
    only_clusters: tuple[str, ...] = ()
    not_clusters: tuple[str, ...] = ()
    max_cost: float | None = None
    prefer: str = ""  # start | cost
    labels: Mapping[str, str] = field(default_factory=dict)
    later: bool = False  # a cluster where it fits only later will do; it waits there
    signature: str = ""  # the owner's own, for sites that run only what is signed
    lost_after: float | None = None  # seconds of its cluster's silence after which it is given up; None: `patience`
    opened: tuple[str, ...] = ()  # patterns of the clusters that the submitter's credential opened; empty: all
    reruns: int = 0  # further runs after an unknown outcome; 0 with at-least-once: the default number
    from_agent: bool = False  # after a restore known only from the agent that has it: it runs nowhere else
    before_reruns: bool = False  # stored by a server that did not know reruns; see `retries_after`

    def __post_init__(self) -> None:
        if self.reruns:
            object.__setattr__(self, "delivery", Delivery.AT_LEAST_ONCE)
        elif self.delivery is Delivery.AT_LEAST_ONCE:
            object.__setattr__(self, "reruns", RERUNS_BEFORE if self.before_reruns else DEFAULT_RERUNS)
        if abs(self.priority) > MAX_PRIORITY:
            raise Invalid(f"a priority lies between -{MAX_PRIORITY} and {MAX_PRIORITY}")
        for name, number in (("retries", self.retries), ("reruns", self.reruns)):
            if not 0 <= number <= MAX_RUNS_AGAIN:
                raise Invalid(f"{name} lie between 0 and {MAX_RUNS_AGAIN}, not at {number}")
        if self.prefer not in ("", "start", "cost"):
            raise Invalid(f"prefer is start or cost, not {self.prefer!r}")
        if len(self.labels) > MAX_LABELS:
            raise Invalid(f"a job has at most {MAX_LABELS} labels")
        if self.lost_after is not None and not 0 < self.lost_after < math.inf:
            raise Invalid("lost_after is a number of seconds above 0")
        if self.max_cost is not None and not self.max_cost >= 0:
            raise Invalid("max_cost is a number from 0 up")
        if len(self.only_clusters) + len(self.not_clusters) > MAX_CLUSTERS:
            raise Invalid(f"a job names at most {MAX_CLUSTERS} clusters")
        for name, moment in (("start time", self.start_after), ("deadline", self.deadline)):
            if moment is not None and not 0 <= moment < END_OF_TIME:
                raise Invalid(f"a {name} is in seconds since 1970 and before the year 10000, not {moment:g}")
        if len(self.signature) > MAX_SIGNATURE or not self.signature.isascii():
            raise Invalid(f"a signature has at most {MAX_SIGNATURE} characters, all of them ASCII")
        pairs = (*self.labels.items(), *self.policy_options.items())
        names = (self.policy, *self.only_clusters, *self.not_clusters)
        if sum(len(key) + len(value) for key, value in pairs) + sum(map(len, names)) > MAX_TERMS:
            raise TooLarge(f"labels, options and cluster names of a job have at most {MAX_TERMS} characters together")

    def patience(self, run_lease: float) -> float:
        """Seconds of silence after which a run counts as lost: without the owner's word never, or as reruns need it."""
        if self.lost_after is not None:
            return self.lost_after
        return run_lease if self.delivery is Delivery.AT_LEAST_ONCE else math.inf

    def retries_after(self, failure: Failure | None) -> int:
        """Return how many retries the job has if an attempt of it failed like this.

        Jobs of older servers keep what they were promised: an at-most-once job that was launched is not run again.
        """
        if self.before_reruns and self.delivery is Delivery.AT_MOST_ONCE and failure not in NEVER_LAUNCHED:
            return 0
        return self.retries

    @property
    def runs(self) -> int:
        """How often the job may be run at most."""
        return 1 + self.retries + self.reruns


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One stored job as the rest of the program sees it. Never mutated; the store hands out the next one."""

    id: int
    owner: str
    name: str
    state: JobState
    spec: str  # the request as canonical JSON
    source: str = ""  # the text as it was submitted, byte for byte, when it was not canonical JSON
    terms: Terms = field(default_factory=Terms)
    hold: Hold | None = None
    cluster: str = ""  # of the live or last attempt
    attempt: int = 0  # number of the live or last attempt
    failures: int = 0  # retries used
    reruns_used: int = 0
    evaluations: int = 0  # how often it was decided
    evaluated_at: float | None = None
    exit_code: int | None = None
    reason: str = ""  # why it is where it is, one sentence
    client_token: str = ""
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    version: int = 0  # the store's compare-and-set guard


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a job; replaying a job's events gives its state."""

    seq: int  # gapless and increasing over the whole server
    job: int
    at: float
    kind: JobEvent
    state: JobState  # after the event
    attempt: int = 0
    detail: Mapping[str, object] = field(default_factory=dict)

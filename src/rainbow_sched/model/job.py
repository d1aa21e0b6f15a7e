"""A job, its terms and its events; `model/job_state.py` holds its state machine."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.attempt import NEVER_LAUNCHED, Failure
from rainbow_sched.model.errors import Invalid, TooLarge
from rainbow_sched.model.job_state import JobEvent, JobState

MAX_NAME_CHARS = 256  # of a job's name, or of its owner; bounds the size of a row
MAX_LABELS = 64  # bounds the size of a job
MAX_TERMS_CHARS = 64 * 1024  # of labels, options and cluster names together; bounds the size of a job
MAX_PRIORITY = 1_000_000  # a priority lies between this and its negative
MAX_CLUSTERS = 1_000  # named by one job; bounds the size of a job
MAX_DEPENDENCIES = 1_000  # other jobs that one job waits for; bounds the transaction of its submission
END_OF_TIME = 253_402_300_800.0  # the year 10000, in seconds since the epoch
MAX_SIGNATURE_CHARS = 4_096  # bounds the size of a job
MAX_RETRIES_OR_RERUNS = 100  # bounds what one job can use before it fails
DEFAULT_RERUNS = 3  # of an at-least-once job without a number of reruns
LEGACY_RERUNS = 9  # of an at-least-once job stored before reruns had a number; its signature allows as many


class Delivery(enum.StrEnum):
    """Whether a job may run again when the outcome of a run is unknown."""

    AT_MOST_ONCE = "at-most-once"  # no: only after a known failure
    AT_LEAST_ONCE = "at-least-once"  # yes: it has reruns


class Hold(enum.StrEnum):
    """Reason why a job is held."""

    USER = "user"  # `rainbow release`
    DEPENDENCY = "dependency"
    TIME = "time"  # start-after
    NOTHING_FITS = "nothing-fits"  # it fits no cluster now; scheduled again after a change
    RESTORED = "restored"  # after a restore: a cluster that may have run it has not reported yet
    MAY_HAVE_RUN = "may-have-run"  # after a restore: a cluster that may have run it is gone; `rainbow release`


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The conditions under which a job runs: all submit options that are not part of the request."""

    priority: int = 0
    delivery: Delivery = Delivery.AT_MOST_ONCE  # at-least-once if and only if there are reruns
    retries: int = 0  # further runs after a known failure
    hold: bool = False
    start_after: float | None = None
    deadline: float | None = None
    fail_fast: bool = False  # end as INFEASIBLE at once if no cluster could ever run it
    policy: str = ""  # empty: the server's default
    policy_options: Mapping[str, str] = field(default_factory=dict)
    only_clusters: tuple[str, ...] = ()
    not_clusters: tuple[str, ...] = ()
    max_cost: float | None = None
    prefer: str = ""  # start | cost
    labels: Mapping[str, str] = field(default_factory=dict)
    later: bool = False  # may go to a cluster that it fits only later, and queue there
    signature: str = ""  # by the owner, for sites that run only signed jobs
    lost_after: float | None = None  # seconds of its cluster's silence until it is declared lost; None: `patience`
    opened: tuple[str, ...] = ()  # patterns of the clusters that the submitter's credential allows; empty: all
    reruns: int = 0  # further runs after an unknown outcome; 0 with at-least-once: the default number
    from_agent: bool = False  # after a restore, known only from an agent: it runs on no other cluster
    before_reruns: bool = False  # stored by a server without reruns; see `retries_after`

    def __post_init__(self) -> None:
        if self.reruns:
            object.__setattr__(self, "delivery", Delivery.AT_LEAST_ONCE)
        elif self.delivery is Delivery.AT_LEAST_ONCE:
            object.__setattr__(self, "reruns", LEGACY_RERUNS if self.before_reruns else DEFAULT_RERUNS)
        if abs(self.priority) > MAX_PRIORITY:
            raise Invalid(f"a priority must be from -{MAX_PRIORITY} to {MAX_PRIORITY}")
        for name, number in (("retries", self.retries), ("reruns", self.reruns)):
            if not 0 <= number <= MAX_RETRIES_OR_RERUNS:
                raise Invalid(f"{name} must be from 0 to {MAX_RETRIES_OR_RERUNS}, not {number}")
        if self.prefer not in ("", "start", "cost"):
            raise Invalid(f"prefer must be start or cost, not {self.prefer!r}")
        if len(self.labels) > MAX_LABELS:
            raise Invalid(f"a job has at most {MAX_LABELS} labels")
        if self.lost_after is not None and not 0 < self.lost_after < math.inf:
            raise Invalid("lost_after must be a number of seconds above 0")
        if self.max_cost is not None and not self.max_cost >= 0:
            raise Invalid("max_cost must be 0 or more")
        if len(self.only_clusters) + len(self.not_clusters) > MAX_CLUSTERS:
            raise Invalid(f"a job names at most {MAX_CLUSTERS} clusters")
        for name, moment in (("start time", self.start_after), ("deadline", self.deadline)):
            if moment is not None and not 0 <= moment < END_OF_TIME:
                raise Invalid(f"a {name} must be in seconds since 1970 and before the year 10000, not {moment:g}")
        if len(self.signature) > MAX_SIGNATURE_CHARS or not self.signature.isascii():
            raise Invalid(f"a signature has at most {MAX_SIGNATURE_CHARS} characters, all of them ASCII")
        pairs = (*self.labels.items(), *self.policy_options.items())
        names = (self.policy, *self.only_clusters, *self.not_clusters)
        if sum(len(key) + len(value) for key, value in pairs) + sum(map(len, names)) > MAX_TERMS_CHARS:
            raise TooLarge(f"labels, options and cluster names of a job have at most {MAX_TERMS_CHARS} characters")

    def patience(self, run_lease: float) -> float:
        """Return the seconds of silence until a run is declared lost; infinity for an at-most-once job by default."""
        if self.lost_after is not None:
            return self.lost_after
        return run_lease if self.delivery is Delivery.AT_LEAST_ONCE else math.inf

    def retries_after(self, failure: Failure | None) -> int:
        """Return how many retries the job has after this failure.

        A job stored by an older server keeps that server's promise: once launched, an at-most-once job does not run
        again.
        """
        if self.before_reruns and self.delivery is Delivery.AT_MOST_ONCE and failure not in NEVER_LAUNCHED:
            return 0
        return self.retries

    @property
    def runs(self) -> int:
        """Return the maximum number of runs."""
        return 1 + self.retries + self.reruns


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One stored job. Never mutated; a change returns a new one."""

    id: int
    owner: str
    name: str
    state: JobState
    hold: Hold | None = None
    spec: str  # the request as canonical JSON
    source: str = ""  # the submitted text, unchanged, if it was not canonical JSON
    terms: Terms = field(default_factory=Terms)
    cluster: str = ""  # of the live or last attempt
    attempt: int = 0  # number of the live or last attempt
    failures: int = 0  # retries used
    evaluations: int = 0  # number of scheduling decisions
    evaluated_at: float | None = None
    exit_code: int | None = None
    reason: str = ""  # of the current state, one sentence
    client_token: str = ""
    submitted_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    version: int = 0  # the store's compare-and-set guard
    reruns_used: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a job; replaying a job's events gives its state."""

    seq: int  # increasing without gaps over the whole server
    job: int
    at: float
    kind: JobEvent
    state: JobState  # after the event
    attempt: int = 0
    detail: Mapping[str, object] = field(default_factory=dict)

"""The agent's nouns: an attempt it holds, where that attempt is, and what the manager says of it."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts

STREAMS = ("stdout", "stderr")
WRONG_NODES = "wrong-nodes"  # code of a return: the manager gave nodes on which the job may not run
MAX_SECONDS = 1e12  # no time that a job names is longer
GUARDED_PART = 2 / 3  # of the time after which the server gives a silent run up; the rest is for ending it


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """The name of an attempt in every message: job, number and fencing token."""

    job: int
    n: int
    token: str

    @property
    def tag(self) -> str:
        """The name under which the cluster's manager knows it."""
        return f"rb-{self.job}-{self.n}"


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts on which a job may run, by group, as the server worked them out from the cluster's graph."""

    groups: tuple[GroupHosts, ...] = ()
    checked: bool = False  # False: the server is too old to work them out

    def of(self, group: int) -> tuple[str, ...]:
        """Return the hosts on which a group may run; empty: on any host."""
        return next((one.hosts for one in self.groups if one.group == group), ())

    def mismatch(self, groups: int) -> str | None:
        """Return why these cannot be the hosts of a request with so many groups, or None."""
        named = [one.group for one in self.groups]
        if len(set(named)) == len(named) and all(group < groups for group in named):
            return None
        return f"the allowed hosts are for the groups {named}, and the request has {groups}; upgrade the server"


ANY_HOST = AllowedHosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An attempt as the server offers it; everything that is needed to run it."""

    ref: Ref
    name: str = ""
    owner: str = ""
    spec: str = ""  # the request as canonical JSON; empty for an attempt adopted from the manager by its tag
    terms: str = "{}"  # JSON
    lease: float = 60.0
    priority: int = 0
    array_index: int | None = None
    hosts: tuple[GroupHosts, ...] = ()
    hosts_checked: bool = False  # the server worked `hosts` out
    unreadable: str = ""  # why the offer cannot be understood

    @property
    def allowed(self) -> AllowedHosts:
        """Where it may run."""
        return AllowedHosts(self.hosts, self.hosts_checked or bool(self.hosts))

    def guard(self, longest: float) -> float | None:
        """Seconds without contact after which it is ended here, before the server gives it up; None: it runs on."""
        again, lost_after = _given_up(self.terms)
        if lost_after is not None:
            return min(longest, lost_after * GUARDED_PART)
        return longest if again else None


@lru_cache(maxsize=4096)
def _given_up(terms: str) -> tuple[bool, float | None]:
    """Of a job's terms: may it be run again, and after how many seconds of silence is it given up, if that was said."""
    try:
        said = json.loads(terms)
    except (ValueError, RecursionError):
        return False, None
    if not isinstance(said, dict):
        return False, None
    lost_after = said.get("lost_after")
    known = isinstance(lost_after, int | float) and 0 < lost_after <= MAX_SECONDS
    return said.get("delivery") == "at-least-once", lost_after if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """How an attempt ended."""

    state: AttemptState  # succeeded, failed, cancelled, preempted; returned: it certainly never ran and never will here
    exit_code: int | None = None  # 128 + n for signal n
    failure: Failure | None = None
    reason: str = ""
    started_at: float | None = None  # seconds since the epoch
    ended_at: float | None = None
    code: str = ""  # typed reason of a return: `WRONG_NODES`


class Phase(enum.StrEnum):
    """Where a held attempt is. What may follow what stands in `STEPS` and nowhere else."""

    OFFERED = "offered"  # judged fit; the offer is being written to the journal
    ACCEPTED = "accepted"  # in the journal; every Sync accepts it until the server confirms
    CONFIRMED = "confirmed"  # the server confirmed; the intent to submit is being written
    INTENT = "intent"  # the intent is in the journal; from here on it may be with the manager
    SUBMITTED = "submitted"  # the manager has it
    RUNNING = "running"
    ENDED = "ended"  # the result is known and being written
    FINISHED = "finished"  # the result is in the journal; reported until the server has stored it


class Step(enum.StrEnum):
    """What moves a held attempt on."""

    OFFER_STORED = "offer-stored"
    CONFIRM = "confirm"
    INTENT_STORED = "intent-stored"
    SUBMIT = "submit"
    RUN = "run"
    END = "end"
    END_STORED = "end-stored"


STEPS: Mapping[tuple[Phase, Step], Phase] = {  # an absent pair changes nothing: late and doubled news are normal
    (Phase.OFFERED, Step.OFFER_STORED): Phase.ACCEPTED,
    (Phase.ACCEPTED, Step.CONFIRM): Phase.CONFIRMED,
    (Phase.CONFIRMED, Step.INTENT_STORED): Phase.INTENT,
    (Phase.INTENT, Step.SUBMIT): Phase.SUBMITTED,
    (Phase.INTENT, Step.RUN): Phase.RUNNING,
    (Phase.SUBMITTED, Step.RUN): Phase.RUNNING,
    (Phase.OFFERED, Step.END): Phase.ENDED,  # cancelled before it was submitted
    (Phase.ACCEPTED, Step.END): Phase.ENDED,
    (Phase.CONFIRMED, Step.END): Phase.ENDED,
    (Phase.INTENT, Step.END): Phase.ENDED,
    (Phase.SUBMITTED, Step.END): Phase.ENDED,
    (Phase.RUNNING, Step.END): Phase.ENDED,
    (Phase.ENDED, Step.END_STORED): Phase.FINISHED,
}
WITH_MANAGER = frozenset({Phase.INTENT, Phase.SUBMITTED, Phase.RUNNING})
UNCONFIRMED = frozenset({Phase.OFFERED, Phase.ACCEPTED})
_TOLD_AS: Mapping[Phase, AttemptState] = {
    Phase.OFFERED: AttemptState.LEASED,
    Phase.ACCEPTED: AttemptState.LEASED,
    Phase.SUBMITTED: AttemptState.SUBMITTED,
    Phase.RUNNING: AttemptState.RUNNING,
}


class Wish(enum.StrEnum):
    """Why a held attempt is to end early."""

    NONE = ""
    CANCEL = "cancel"  # its owner or an operator asked
    KILL = "kill"  # the server no longer counts on it: its token is stale
    GUARD = "guard"  # no contact for so long that the server may start it elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One attempt in the agent's hands. Never mutated; the reactor makes the next one."""

    offer: Offer
    phase: Phase = Phase.OFFERED
    native: str = ""  # the manager's own id
    result: Result | None = None
    wish: Wish = Wish.NONE
    told: str = ""  # the last report that the server answered
    unknown: str = ""  # the state that the server did not understand; it is reported again to another server
    acked: bool = False  # the server has stored the end
    started_at: float | None = None
    nodes: str = ""  # hostlist: the nodes that the manager gave; empty: not known
    sizes: tuple[int, int] = (0, 0)  # bytes of stdout and stderr there are
    sent: tuple[int, int] = (0, 0)  # bytes the server has stored
    busy: str = ""  # "submit" or "lookup": the manager was asked and has not answered
    act_at: float | None = None  # when to look up or to cancel again
    ended_clock: float = 0.0  # the agent's clock when the end became known

    @property
    def ref(self) -> Ref:
        """Its name."""
        return self.offer.ref

    @property
    def state(self) -> AttemptState:
        """What the server is told it is."""
        if self.result is not None:
            return self.result.state
        return _TOLD_AS.get(self.phase, AttemptState.ACCEPTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What is remembered of an attempt that is over: how it ended, or why it was never taken."""

    result: Result | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What the manager says of one job."""

    tag: str
    phase: Phase  # SUBMITTED (it waits), RUNNING, or ENDED with a result
    native: str = ""
    result: Result | None = None
    started_at: float | None = None
    sizes: tuple[int, int] = (0, 0)
    nodes: str = ""  # hostlist: where it runs or ran; empty: not known


@dataclass(frozen=True, slots=True)
class Found:
    """The manager knows the tag."""

    update: Update


@dataclass(frozen=True, slots=True)
class Absent:
    """The manager has no record of the tag. `never`: it is certain that it never had one."""

    never: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The manager could not be asked: nothing follows from that, ask again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The cluster as its manager sees it now."""

    manager: str
    state: Mapping[str, object] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict)  # vertex id or name -> up | down | drained
    used: Mapping[str, int] | None = None  # vertex id -> units taken by others than Rainbow; None: not known
    shape: str = ""  # changes when the cluster does: nodes, what is in them; empty: the backend cannot tell


@dataclass(frozen=True, slots=True, kw_only=True)
class BidAnswer:
    """Yes or no, when it would start, what it would cost."""

    yes: bool
    reason: str = ""
    start_p50: float | None = None  # seconds from now
    start_p90: float | None = None
    runtime_factor: float = 1.0
    cost: float | None = None
    valid_for: float = 30.0


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a job's output."""

    ref: Ref
    stream: str
    offset: int
    data: bytes

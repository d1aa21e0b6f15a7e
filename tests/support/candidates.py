"""Builders for choosing: a cluster that fits, a bid, a question; tests name only what matters to them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from rainbow_sched.model.bid import Bid, TrackRecord
from rainbow_sched.model.candidate import Candidate, ClusterReport, Demand, OwnerLimits, PlacedSinceReport
from rainbow_sched.model.match import Fit
from rainbow_sched.selection.decisions import Criteria, Question

NOW = 1_000_000.0
PRIORITIES = """
- priority: 1
  steps:
  - filter: nodes_free > 2
  - calc: price=cost_per_node_hour * nodes
  - sort_ascending: price
- priority: 2
  steps:
  - sort_descending: slots_ever
  - select: random
"""
# every built-in policy with options under which it does something
BUILT_INS: dict[str, dict[str, str]] = {
    "random": {},
    "first": {"order": "c2,c1"},
    "least": {"key": "queue_depth"},
    "spread": {},
    "pack": {},
    "constraint": {"priorities": PRIORITIES},
    "start": {},
    "cost": {},
    "weighted": {"weights": "0.6*start + 0.3*cost - 0.1*nodes_free"},
}


def a_cluster(name: str, fit: Fit = Fit.NOW, **values: Any) -> Candidate:
    """A cluster that fits; what is not a field of Candidate is a key of its state."""
    own = {key: values.pop(key) for key in list(values) if key in Candidate.__dataclass_fields__}
    told = {key: values.pop(key) for key in ("record", "labels") if key in values}
    own.setdefault("slots_now", 4 if fit is Fit.NOW else 0)
    own.setdefault("slots_ever", 8)
    report = ClusterReport(name=name, state=values, at=NOW - own.pop("state_age", 5.0), **told)
    return Candidate.of(report, fit, **own)


def a_bid(cluster: str, start: float | None = 0.0, **values: Any) -> Bid:
    """A bid asked just now and good for a minute."""
    given = {"yes": True, "asked_at": NOW, "valid_until": NOW + 60.0, "start_p50": start, "start_p90": start}
    return Bid(cluster=cluster, **{**given, **values})


def a_question(*candidates: Candidate, policy: str = "first", **values: Any) -> Question:
    """A question about these candidates."""
    own = {key: values.pop(key) for key in Question._fields if key in values}
    criteria = Criteria(**{"demand": Demand(), "policy": policy, **values})
    return Question(criteria=criteria, candidates=candidates, **{"now": NOW, **own})


def with_criteria(question: Question, **values: Any) -> Question:
    """The same question with something else asked."""
    return question._replace(criteria=replace(question.criteria, **values))


numbers = st.one_of(st.integers(0, 50), st.floats(0, 50, allow_nan=False).map(lambda x: round(x, 2)))
names = st.sampled_from([f"c{i}" for i in range(12)])

# Strategies are made once: one that is made for each draw is checked for each draw, which costs more than the draw.
_PERHAPS_START = st.one_of(st.none(), st.floats(0, 5_000).map(round))
_PERHAPS_COST = st.one_of(st.none(), st.integers(0, 10_000).map(lambda cents: cents / 100))
_FITS = st.sampled_from([Fit.NOW, Fit.NOW, Fit.LATER, Fit.UNKNOWN])
_STATE = st.dictionaries(
    st.sampled_from(["nodes_free", "queue_depth", "cost_per_node_hour", "rare"]),
    st.one_of(numbers, st.just("text"), st.booleans(), st.none()),
    max_size=4,
)
_RECORDS = st.one_of(
    st.just(TrackRecord()),
    st.one_of(st.none(), st.floats(0, 500).map(round)).map(
        lambda wait: TrackRecord(jobs=9, weight=8.0, held=2.0, log_bias=8.0, wait=wait)
    ),
)
_SHARES = st.integers(1, 20).flatmap(lambda ever: st.tuples(st.integers(1, ever), st.just(ever)))


@cache
def bids(cluster: str) -> st.SearchStrategy[Bid]:
    """Live and expired, yes and no, with and without each number."""
    return st.builds(
        a_bid,
        st.just(cluster),
        _PERHAPS_START,
        yes=st.booleans(),
        cost=_PERHAPS_COST,
        valid_until=st.sampled_from([NOW - 5.0, NOW + 30.0]),
        asked_at=st.sampled_from([NOW, NOW - 20.0]),
        reason=st.sampled_from(["", "maintenance"]),
        late=st.booleans(),
    )


@cache
def candidates(name: str) -> st.SearchStrategy[Candidate]:
    """A cluster with any mixture of fresh and stale, known and unknown."""

    def made(report: ClusterReport, fit: Fit, slots: tuple[int, int], **more: Any) -> Candidate:
        return Candidate.of(report, fit, slots_now=slots[0] if fit is Fit.NOW else 0, slots_ever=slots[1], **more)

    report = st.builds(
        ClusterReport,
        name=st.just(name),
        state=_STATE,
        at=st.sampled_from([None, NOW, NOW - 12.5, NOW - 4_000.0]),
        record=_RECORDS,
    )
    return st.builds(
        made,
        report,
        _FITS,
        _SHARES,
        placed=st.sampled_from([PlacedSinceReport(), PlacedSinceReport(jobs=2, nodes=3, cores=8)]),
        bid=st.one_of(st.none(), bids(name)),
        no_bid=st.sampled_from(["", "no agent"]),
    )


_FLEETS = st.lists(names, unique=True, max_size=8).flatmap(
    lambda chosen: st.tuples(*(candidates(name) for name in chosen)).map(list)
)
_LIMITS = st.builds(
    OwnerLimits,
    deadline=st.one_of(st.none(), st.floats(NOW, NOW + 5_000)),
    max_cost=st.one_of(st.none(), st.integers(0, 100).map(float)),  # whole numbers: floats cluster around a few
    only=st.sampled_from([frozenset(), frozenset(), frozenset({"c1", "c2", "c3", "c4"})]),
    never=st.sampled_from([frozenset(), frozenset({"c5"})]),
    prefer=st.sampled_from(["", "", "start", "cost"]),
    later=st.booleans(),
    otherwise=st.sampled_from(["wait", "refuse"]),
)
_CRITERIA = st.builds(
    lambda policy, demand, limits: Criteria(demand=demand, policy=policy, options=BUILT_INS[policy], limits=limits),
    st.sampled_from(sorted(BUILT_INS)),
    st.builds(Demand, nodes=st.integers(1, 9), duration=st.sampled_from([None, 600.0])),
    _LIMITS,
)


@cache
def questions() -> st.SearchStrategy[Question]:
    """Any policy over any small fleet, with any limits."""
    return st.builds(
        Question,
        criteria=_CRITERIA,
        candidates=_FLEETS,
        misfits=st.sampled_from([{}, {"tiny": (Fit.NEVER, "1 node, 2 needed")}]),
        seed=st.integers(0, 2**32),
        snapshot=st.integers(0, 9),
        now=st.just(NOW),
    )

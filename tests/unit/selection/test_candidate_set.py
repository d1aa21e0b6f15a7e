"""What decisions over one state of the fleet share never mixes their limits, misfits or reports."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.candidate import Candidate, OwnerLimits
from rainbow_sched.model.match import Fit
from rainbow_sched.selection import candidate_set
from rainbow_sched.selection.candidate_set import CandidateSet, FleetPartCache
from rainbow_sched.selection.decisions import decide
from rainbow_sched.selection.policies import built_in
from tests.support.candidates import a_question, candidates, names

_FLEETS = st.lists(names, unique=True, max_size=6).flatmap(
    lambda chosen: st.tuples(*(candidates(name) for name in chosen)).map(list)
)
_LIMITS = st.builds(
    OwnerLimits,
    only=st.sets(names, max_size=3).map(frozenset),
    never=st.sets(names, max_size=3).map(frozenset),
    later=st.booleans(),
)
_MISFITS = st.sampled_from(
    [{}, {}, {"x1": (Fit.NEVER, "")}, {"x1": (Fit.NEVER, "too small")}, {"x2": (Fit.UNKNOWN, "")}]
)


@given(_FLEETS, st.lists(_LIMITS, max_size=6), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_each_limits_keep_the_candidates_that_they_allow(
    fleet: list[Candidate], asked: list[OwnerLimits], bound: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidate_set, "MAX_CACHED_LIMITS", bound)
        together = CandidateSet(fleet)
        for limits in asked:
            expected = [c for c in together if not limits.why_not(c.name, c.fit, bid=c.bid is not None)]
            assert list(together.eligible(limits)) == expected
            assert len(together._eligible) <= bound


@given(st.lists(_FLEETS, min_size=1, max_size=3), st.lists(st.tuples(st.integers(0, 2), _LIMITS, _MISFITS), max_size=6))
@settings(max_examples=40, deadline=None)
def test_decisions_that_share_everything_are_those_that_share_nothing(
    fleets: list[list[Candidate]], asked: list[tuple[int, OwnerLimits, dict[str, tuple[Fit, str]]]]
) -> None:
    parts, policies = FleetPartCache(), built_in()
    shared = [CandidateSet(fleet, parts) for fleet in fleets]
    for which, limits, misfits in asked:
        given_set = shared[which % len(shared)]
        question = a_question(limits=limits, misfits=misfits)._replace(candidates=given_set)
        alone = question._replace(candidates=list(given_set))
        decision = decide(question, policies)
        assert decision.to_json() == decide(alone).to_json()
        assert decision.fleet.document["misfits"] == {name: [fit.value, why] for name, (fit, why) in misfits.items()}

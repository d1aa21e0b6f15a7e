"""The sums over a request, held against counting slot by slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.model.candidate import MAX_COUNTED, Demand
from rainbow_sched.model.request import Count, Equals, Group, Level, Request, Requirement
from rainbow_sched.model.request_summary import RequestSummary

NEEDS_GCC = Requirement("software", (Equals("name", "gcc"),))


@st.composite
def levels(draw: st.DrawFn, depth: int = 3) -> Level:
    """A level with few of each thing inside, so that it can be written out."""
    least = draw(st.integers(1, 3))
    inside = draw(st.lists(levels(depth=depth - 1), max_size=2)) if depth else []
    return Level(
        type=draw(st.sampled_from(["node", "socket", "core", "gpu", "memory"])),
        count=Count(least, draw(st.sampled_from([least, least + 2, None]))),
        unit="" if inside else draw(st.sampled_from(["", "GB", "license"])),
        requires=(NEEDS_GCC,) if draw(st.booleans()) else (),
        inside=tuple(inside),
    )


requests = st.builds(
    lambda groups, hosts: Request(groups=tuple(Group(levels=tuple(each)) for each in groups), hosts=tuple(hosts)),
    st.lists(st.lists(levels(), min_size=1, max_size=2), min_size=1, max_size=2),
    st.lists(st.just("n0"), max_size=1),
)


def written_out(level: Level) -> Iterator[Level]:
    """One entry for each thing that the request needs."""
    for _ in range(level.count.min):
        yield level
        for inner in level.inside:
            yield from written_out(inner)


@settings(max_examples=150, deadline=None)
@given(requests)
def test_the_sums_are_those_of_the_request_written_out(request: Request) -> None:
    summary = RequestSummary.of(request)
    things = [each for group in request.groups for level in group.levels for each in written_out(level)]
    assert summary.totals == Counter(each.type for each in things)
    assert summary.leaf_totals == Counter(each.type for each in things if not each.inside)
    assert summary.byte_types == {each.type for each in things if not each.inside and each.unit == "GB"}
    assert summary.levels == len(list(request.walk()))
    assert summary.requirements == tuple(one for level in request.walk() for one in level.requires)
    assert summary.requires_inside == any(each.requires for each in things if each.type != "node")
    assert summary.may_bind == (bool(request.hosts) or any(each.requires for each in things))
    demand = Demand.of(request)
    assert (demand.nodes, demand.cores) == (max(1, summary.totals["node"]), summary.totals["core"])


def test_counts_are_bounded_in_the_demand_of_a_request() -> None:
    huge = Level(type="node", count=Count(2**40), inside=(Level(type="core", count=Count(2**40)),))
    demand = Demand.of(Request(groups=(Group(levels=(huge,)),)))
    assert (demand.nodes, demand.cores) == (MAX_COUNTED, MAX_COUNTED)

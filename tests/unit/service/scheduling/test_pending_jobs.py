"""Pending jobs that are added together are grouped as if each had been added alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.graphs.backend import open_backend
from rainbow_sched.model.cluster_rules import ClusterRules
from rainbow_sched.model.job import Terms
from rainbow_sched.service.clusters.fleet import Fleet
from rainbow_sched.service.scheduling.pending_jobs import PendingJobs
from rainbow_sched.store.records import WaitingJob

TERMS = [Terms(), Terms(), Terms(only_clusters=("east",))]  # two of them are equal, and not the same
waiting = st.lists(
    st.tuples(st.integers(-2, 2), st.sampled_from(["one", "two"]), st.sampled_from(TERMS), st.sampled_from("ab")),
    max_size=40,
)


def emptied(pending: PendingJobs) -> dict[str, list[int]]:
    """Return the jobs of each shape group in their order."""
    found: dict[str, list[int]] = {}
    for shape in pending.by_urgency():
        found[shape] = []
        while (job := pending.first_job(shape)) is not None:
            found[shape].append(job)
            pending.remove([job])
    return found


@given(waiting, st.integers(0, 40), st.booleans())
@settings(max_examples=80, deadline=None)
def test_all_at_once_is_the_same_as_one_by_one(rows: list[tuple[int, str, Terms, str]], cut: int, ruled: bool) -> None:
    fleet = Fleet(open_backend("memory", {}))
    if ruled:
        fleet.rules["east"] = ClusterRules()
    jobs = [WaitingJob(number, *row) for number, row in enumerate(rows, 1)]
    by_one, at_once = PendingJobs(), PendingJobs()
    for job in jobs:
        by_one.add(fleet, job)
    at_once.add_all(fleet, jobs[:cut])
    at_once.add_all(fleet, jobs[cut:])
    assert len(at_once) == len(by_one)
    assert emptied(at_once) == emptied(by_one)

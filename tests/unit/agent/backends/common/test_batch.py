"""What the base of batch backends promises, on a manager that fails at the worst moments."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rainbow_sched.agent.backends.base import BackendSettings
from rainbow_sched.agent.backends.common.batch import BatchBackend, first_job
from rainbow_sched.agent.backends.common.job_folder import BatchFolder, SubmitRecord
from rainbow_sched.agent.core.values import Absent, ClusterFacts, JobFound, Phase, Unknown, Update
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, Unavailable
from rainbow_sched.model.graph import Mark
from rainbow_sched.protocol.messages import BidAnswer
from tests.support.backends import a_graph, a_launch, a_request


@dataclass(slots=True)
class Job:
    """A job in the manager."""

    native: str
    tag: str
    key: str
    phase: Phase = Phase.SUBMITTED


class Manager:
    """A manager outside the agent: it keeps its jobs when the agent dies."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.lists = self.sites = 0
        self.submission = "answers"  # or "refuses", "loses the request", "loses the answer"
        self.down = False
        self.updating, self.may_update = threading.Event(), threading.Event()
        self.may_update.set()

    def submit(self, tag: str, key: str) -> str:
        if self.submission == "refuses":
            raise Invalid("no")
        if self.submission != "loses the request":
            self.jobs.append(Job(str(len(self.jobs) + 1), tag, key))
        if self.submission != "answers":
            raise Unavailable("no answer")
        return self.jobs[-1].native


class Folder(BatchFolder[SubmitRecord]):
    record_type = SubmitRecord


class Backend(BatchBackend[str, str, SubmitRecord, Job]):
    """The hooks, on that manager."""

    manager, title = "small", "Small"
    options = frozenset[str]()
    site_options = ("queue",)
    poll_seconds, facts_seconds = 0.01, 0.0
    node_rules = NodeRules()

    def __init__(self, settings: BackendSettings, small: Manager, listing_delay: float = 0.0) -> None:
        super().__init__(settings, listing_delay=listing_delay)
        self.small = small

    def folder(self, tag: str) -> Folder:
        return Folder(self.root, tag)

    async def read_site(self) -> str:
        if self.small.down:
            raise Unavailable("down")
        self.small.sites += 1
        return "site"

    async def plan(self, request: object, allowed: object) -> str:
        return await self.site()

    def record(self, launch: object, plan: str) -> SubmitRecord:
        return SubmitRecord()

    async def hand_over(self, launch: object, plan: str, record: SubmitRecord) -> str:
        await asyncio.sleep(0)
        return self.small.submit(launch.tag, record.key)

    async def list_jobs(self) -> Mapping[str, Sequence[Job]]:
        if self.small.down:
            raise Unavailable("down")
        self.small.lists += 1
        await asyncio.sleep(0)
        tags = {job.tag for job in self.small.jobs}
        return {tag: [replace(job) for job in self.small.jobs if job.tag == tag] for tag in tags}

    def is_same(self, job: Job, record: SubmitRecord) -> bool:
        return job.key == record.key

    def update(self, tag: str, job: Job | None, now: float) -> Update | None:
        self.small.updating.set()
        self.small.may_update.wait()
        return None if job is None else Update(tag=tag, phase=job.phase, native=job.native)

    async def end_jobs(self, natives: Sequence[str]) -> None:
        for job in self.small.jobs:
            if job.native in natives:
                job.phase = Phase.ENDED
        raise Invalid("they have ended")

    async def read_facts(self) -> ClusterFacts:
        return ClusterFacts(manager="small", marks={"n0": str(Mark.DOWN)}, used={"core0": 1})

    async def estimate(self, request: object, plan: str) -> BidAnswer:
        return BidAnswer(yes=True)


@pytest.fixture
def small() -> Manager:
    return Manager()


@pytest.fixture
async def backend(tmp_path: Path, small: Manager) -> Backend:
    return await at(tmp_path, small)


async def at(directory: Path, small: Manager, **fields: float) -> Backend:
    made = Backend(BackendSettings(cluster="c", directory=directory, graph=a_graph()), small, **fields)
    await made.start()
    return made


def launch(number: int = 1):
    return a_launch(a_request("true"), number)


async def tagged(backend: Backend) -> dict[str, Phase]:
    return {update.tag: update.phase for update in await backend.poll()}


TAGS = (1, 2, 3)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("submit"),
            st.sampled_from(TAGS),
            st.sampled_from(["answers", "refuses", "loses the request", "loses the answer"]),
        ),
        st.tuples(st.sampled_from(["again", "down", "up", "poll"]), st.just(0), st.just("")),
        st.tuples(st.sampled_from(["forget", "cancel", "end", "lookup"]), st.sampled_from(TAGS), st.just("")),
    ),
    max_size=25,
)


@given(steps=steps)
@settings(max_examples=150, deadline=None)
async def test_no_tag_is_submitted_twice_and_each_job_is_reported_until_it_is_forgotten(tmp_path_factory, steps):
    """The oracle counts in the manager. "again": the agent dies and starts anew."""
    directory, small = tmp_path_factory.mktemp("agent"), Manager()
    backend = await at(directory, small)
    forgotten: set[str] = set()
    for what, number, how in steps:
        tag = f"rb-{number}-1"
        if what == "submit" and tag not in forgotten:
            small.submission = how
            try:
                native = await backend.submit(launch(number))
                assert [job.native for job in small.jobs if job.tag == tag] == [native]
            except (Unavailable, Invalid):
                assert how != "answers" or small.down
        elif what == "again":
            backend = await at(directory, small)
        elif what in ("down", "up"):
            small.down = what == "down"
        elif what == "forget" and any(job.tag == tag and job.phase is Phase.ENDED for job in small.jobs):
            await backend.forget(tag)
            forgotten.add(tag)
        elif what == "end":
            small.jobs = [replace(job, phase=Phase.ENDED) if job.tag == tag else job for job in small.jobs]
        elif what in ("poll", "cancel", "lookup"):
            expected = {job.tag: job.phase for job in small.jobs if job.tag not in forgotten}
            if what == "lookup":
                found = await backend.lookup(tag)
                kind = Absent if tag in forgotten else Unknown if small.down else JobFound
                assert isinstance(found, kind if tag in expected or tag in forgotten else (Absent, Unknown))
            elif small.down:
                with pytest.raises(Unavailable):
                    await (backend.poll() if what == "poll" else backend.cancel(tag))
            elif what == "poll":
                assert await tagged(backend) == expected
            else:
                await backend.cancel(tag)
                assert all(job.phase is Phase.ENDED for job in small.jobs if job.tag == tag)
        counts = [sum(job.tag == f"rb-{one}-1" for job in small.jobs) for one in TAGS]
        assert max(counts) <= 1


async def test_callers_at_the_same_time_share_a_list_and_later_ones_get_a_new_one(backend: Backend, small: Manager):
    await backend.submit(launch())
    before = small.lists
    await asyncio.gather(*(backend.lookup("rb-1-1") for _ in range(9)))
    assert small.lists - before <= 2, "one may have been under way when the others came"
    small.jobs[0].phase = Phase.RUNNING
    assert (await backend.lookup("rb-1-1")).update.phase is Phase.RUNNING


async def test_a_new_job_that_is_not_listed_yet_is_pending_and_not_submitted_again(tmp_path: Path, small: Manager):
    backend = await at(tmp_path, small, listing_delay=60.0)
    await backend.submit(launch(1))
    small.submission = "loses the answer"
    with pytest.raises(Unavailable):
        await backend.submit(launch(2))
    hidden, small.jobs = small.jobs, []
    assert await tagged(backend) == {"rb-1-1": Phase.SUBMITTED}, "its id is known"
    assert isinstance(await backend.lookup("rb-1-1"), Unknown)
    with pytest.raises(Unavailable, match="may not list the job yet"):
        await backend.submit(launch(2))
    small.jobs = hidden
    assert await backend.submit(launch(2)) == "2"


async def test_an_ended_job_that_the_manager_drops_stays_ended(backend: Backend, small: Manager):
    await backend.submit(launch())
    small.jobs[0].phase = Phase.ENDED
    assert await tagged(backend) == {"rb-1-1": Phase.ENDED}
    small.jobs.clear()
    assert await tagged(backend) == {"rb-1-1": Phase.ENDED}
    await backend.forget("rb-1-1")
    assert await tagged(backend) == {}


@pytest.mark.parametrize("moment", ["while the manager is asked", "while the folders are read"])
async def test_a_job_forgotten_during_a_poll_is_not_reported(backend: Backend, small: Manager, moment: str):
    await backend.submit(launch())
    small.jobs[0].phase = Phase.ENDED
    polling = asyncio.create_task(backend.poll())
    if moment == "while the manager is asked":
        await asyncio.sleep(0)
    else:
        small.may_update.clear()
        await asyncio.to_thread(small.updating.wait)
    await backend.forget("rb-1-1")
    small.may_update.set()
    assert await polling == ()
    assert await tagged(backend) == {}


async def test_a_job_of_another_submission_is_not_this_one(backend: Backend, small: Manager):
    small.jobs.append(Job("1", "rb-1-1", "another", Phase.RUNNING))
    assert await backend.submit(launch()) == "2"
    assert (await backend.lookup("rb-1-1")).update.native == "2"


async def test_an_ended_job_of_an_earlier_agent_with_the_same_tag_is_not_this_one(backend: Backend, small: Manager):
    small.jobs.append(Job("1", "rb-1-1", "another", Phase.ENDED))
    assert await tagged(backend) == {}
    await backend.submit(launch())
    assert await tagged(backend) == {"rb-1-1": Phase.SUBMITTED}


async def test_a_refused_job_leaves_nothing_behind(backend: Backend, small: Manager):
    small.submission = "refuses"
    with pytest.raises(Invalid):
        await backend.submit(launch())
    assert list(backend.root.iterdir()) == []
    assert await backend.lookup("rb-1-1") == Absent(never=True)


async def test_marks_and_use_are_reported_only_if_the_graph_is_the_servers(backend: Backend, tmp_path: Path):
    assert (await backend.facts()).used == {"core0": 1}
    settings = BackendSettings(cluster="c", directory=tmp_path / "other")
    found = await Backend(settings, backend.small).facts()
    assert (found.marks, found.used) == ({}, None)


async def test_the_site_is_read_once_and_again_for_another_graph(backend: Backend, small: Manager):
    await backend.check(a_request("true"))
    assert small.sites == 1
    backend.reshape(a_graph(4))
    await backend.check(a_request("true"))
    assert small.sites == 2


def test_options_of_other_managers_are_refused(tmp_path: Path, small: Manager):
    fine = {"interval": "1", "queue": "a", "queue.b": "c", "spool": str(tmp_path)}
    Backend(BackendSettings(cluster="c", directory=tmp_path, options=fine), small)
    with pytest.raises(Invalid, match="no option 'partition'"):
        Backend(BackendSettings(cluster="c", directory=tmp_path, options={"partition": "a"}), small)


@given(
    ids=st.lists(st.integers(1, 10**12), unique=True, min_size=1, max_size=6),
    ended=st.sets(st.integers(0, 5)),
    begun=st.one_of(st.none(), st.integers(0, 5)),
)
def test_the_job_that_started_counts_or_else_the_oldest_that_lives(ids, ended, begun):
    jobs = [Job(str(id), "t", "", Phase.ENDED if n in ended else Phase.RUNNING) for n, id in enumerate(ids)]
    if begun is not None:
        expected = str(ids[begun]) if begun < len(ids) else None
        chosen = first_job(jobs, str(ids[begun]) if begun < len(ids) else "withdrawn")
    else:
        alive = [int(job.native) for job in jobs if job.phase is Phase.RUNNING]
        expected, chosen = str(min(alive or ids)), first_job(jobs, None)
    assert (chosen.native if chosen is not None else None) == expected

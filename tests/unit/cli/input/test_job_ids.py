"""Job selectors, resolved with a client that returns given jobs."""

import pytest

from rainbow_sched.cli.input.job_ids import resolve
from rainbow_sched.client import JobFilter
from rainbow_sched.client.jobs import ACTIVE_STATES, JobInfo
from rainbow_sched.model import errors
from rainbow_sched.model.errors import Invalid


class JobLister:
    """A client that records the filter of its only call, and returns these jobs."""

    def __init__(self, *jobs):
        self.stored, self.selected, self.limit = jobs, None, 0

    async def jobs(self, selected=None, *, limit):
        self.selected, self.limit = selected, limit
        return self.stored


RUNNING, OTHER, ENDED = (
    JobInfo(id=9, state="bound", native_id="88123"),
    JobInfo(id=7, state="queued", native_id="ƒ2eD4"),
    JobInfo(id=5, state="failed"),
)


@pytest.mark.parametrize(
    ("word", "stored", "selected", "ids"),
    [
        ("118", [], None, [118]),
        ("3-9", [RUNNING, ENDED], JobFilter(ids=range(3, 10)), [5, 9]),
        ("last", [RUNNING], None, [9]),
        ("all", [RUNNING, OTHER], JobFilter(states=ACTIVE_STATES), [9, 7]),
        ("all", [], JobFilter(states=ACTIVE_STATES), []),
        ("train", [RUNNING, OTHER, ENDED], JobFilter(name="train"), [9, 7]),
        ("train", [ENDED], JobFilter(name="train"), [5]),
        ("perl:88123", [RUNNING, OTHER], JobFilter(cluster="perl"), [9]),
        ("corona:ƒ2eD4", [RUNNING, OTHER], JobFilter(cluster="corona"), [7]),
        (":x", [RUNNING], JobFilter(name=":x"), [9]),
    ],
)
async def test_words_select_jobs(word, stored, selected, ids):
    client = JobLister(*stored)
    assert await resolve(client, [word]) == ids
    assert client.selected == selected
    assert client.limit == {"118": 0, "last": 1, "3-9": 10_000}.get(word, 10_000 if word[-1] in "34" else 1_000_000)


async def test_each_job_is_selected_once():
    assert await resolve(JobLister(RUNNING, ENDED), ["5", "3-9", "5"]) == [5, 9]


@pytest.mark.parametrize("word", ["3-9", "last", "train", "perl:1"])
async def test_a_word_that_selects_no_job_raises_not_found(word):
    with pytest.raises(errors.NotFound, match=f"there is no job '{word}'"):
        await resolve(JobLister(), [word])


@pytest.mark.parametrize(
    ("word", "why"),
    [("0", "start at 1"), ("9-3", "not a range"), ("1-99999999", "at most 10000"), (" ", "is empty")],
)
async def test_an_invalid_word_is_refused(word, why):
    with pytest.raises(Invalid, match=why):
        await resolve(JobLister(), [word])

"""The child that follows Flux's journal: what it may say, and what happens when it ends."""

import asyncio
import json
import sys

import pytest

from rainbow_sched.agent.backends.flux import follower as flux_follower
from rainbow_sched.agent.backends.flux.follower import FluxFollower
from rainbow_sched.model.errors import Invalid, Unavailable

CAUGHT_UP = "print('{\"caught_up\": true}', flush=True)"
ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"n": asked["n"], **asked["of"]}), flush=True)
"""
SUBMIT = {"id": 7, "events": [{"timestamp": 1.0, "name": "submit", "context": {"userid": 0}}], "jobspec": {}}


class Children:
    """Stands for `flux python`: one program after the other, in this Python."""

    def __init__(self, *programs: str) -> None:
        self.left = list(programs)

    async def bridge(self) -> asyncio.subprocess.Process:
        if not self.left:
            raise Unavailable("flux cannot be run")
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", self.left.pop(0), stdin=pipe, stdout=pipe
        )


async def following(*programs: str) -> FluxFollower:
    """A follower that has caught up."""
    follower = FluxFollower(Children(*programs), lambda job: None)
    follower.start()
    async with asyncio.timeout(20):
        while follower.table is None:
            await asyncio.sleep(0.01)
    return follower


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flux_follower, "RESTART_SECONDS", (0.01,))


@pytest.mark.parametrize(
    "said",
    [
        "oops",
        "[]",
        json.dumps({"journal": {"id": 7, "events": [{}]}}),
        json.dumps({"journal": {"id": 7, "events": ["x"]}}),
        json.dumps({"lost": "not permitted"}),
    ],
)
async def test_what_is_not_understood_is_said_once_and_the_next_child_is_listened_to(said, caplog):
    bad = f"print({said!r}, flush=True)"
    follower = await following(bad, bad, CAUGHT_UP + ECHO)
    assert await follower.probe({"answer": {"yes": 1}}) == {"yes": 1}
    await follower.close()
    assert caplog.text.count("cannot follow") == 1


async def test_a_refusal_is_told_from_no_answer():
    follower = await following(CAUGHT_UP + ECHO)
    with pytest.raises(Invalid, match="no such thing"):
        await follower.probe({"problem": "no such thing"})
    await follower.close()
    with pytest.raises(Unavailable):
        await follower.probe({})


async def test_a_question_whose_child_ends_has_no_answer():
    follower = await following(CAUGHT_UP + "\nimport sys; sys.stdin.readline()")
    with pytest.raises(Unavailable, match="ended before"):
        await follower.probe({})
    await follower.close()


async def test_what_happens_after_the_history_is_news():
    told = json.dumps({"journal": SUBMIT})
    news = []
    program = f"print({told!r}); {CAUGHT_UP}; print({told.replace('7', '8')!r}, flush=True)"
    follower = FluxFollower(Children(program + ECHO), news.append)
    follower.start()
    async with asyncio.timeout(20):
        while not news:
            await asyncio.sleep(0.01)
    assert ([job.id for job in news], {job.id for job in follower.table.jobs}) == ([8], {7, 8})
    await follower.close()

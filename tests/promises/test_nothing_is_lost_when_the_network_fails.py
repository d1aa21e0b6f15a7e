"""Network faults: jobs run once, results arrive, and followers miss no output."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from rainbow_sched.client.jobs import EventInfo, JobFilter
from tests.support.fleet import Fleet, a_fleet
from tests.support.proxy import DOWN, UP, Proxy, a_proxy

pytestmark = pytest.mark.timeout(180)
PARTITIONS = int(os.environ.get("RAINBOW_PARTITIONS", "12"))
Trouble = Callable[[Proxy], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def slow(proxy: Proxy) -> Iterator[None]:
    """Delay every packet."""
    proxy.delay = 0.05
    try:
        yield
    finally:
        proxy.delay = 0.0


@contextlib.contextmanager
def flapping(proxy: Proxy) -> Iterator[None]:
    """Close connections repeatedly."""
    for _ in range(3):
        before = proxy.passed(UP)
        proxy.cut()
        proxy.reaches(UP, before + 100, 0.5)
    yield


TROUBLES: dict[str, Trouble] = {
    "cut both ways": lambda proxy: proxy.apart(),
    "nothing up, nobody told": lambda proxy: proxy.silent(UP),
    "nothing down, nobody told": lambda proxy: proxy.silent(DOWN),
    "nothing either way, nobody told": lambda proxy: proxy.silent(UP, DOWN),
    "up stalls and goes on": lambda proxy: proxy.stalled(UP),
    "down stalls and goes on": lambda proxy: proxy.stalled(DOWN),
    "slow": slow,
    "flapping": flapping,
}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with a_fleet(tmp_path) as running:
        yield running


@pytest.fixture
def proxy(fleet: Fleet) -> Iterator[Proxy]:
    with a_proxy(fleet.server.address) as between:
        yield between
        fleet.stop()  # while agents can still say goodbye


def test_jobs_run_once_through_partitions_of_every_kind(fleet: Fleet, proxy: Proxy) -> None:
    rng = Random(3)
    agents = [fleet.add("east", server=proxy.address), fleet.add("west", server=proxy.address)]
    with contextlib.closing(fleet.a_client(proxy.address)) as user:
        codes: dict[int, int] = {}
        for number, (name, trouble) in zip(range(PARTITIONS), itertools.cycle(TROUBLES.items()), strict=False):
            batch = [fleet.submission(seconds=rng.random() / 2, code=i % 3) for i in range(5)]
            # Half of the batches are sent into the trouble, half before it.
            if number % 2:
                with trouble(proxy):
                    agents[number % 4 // 2].lives(0.1 + rng.random() / 2)
                sent = user.submit_batch(batch)
            else:
                sent = user.submit_batch(batch)
                with trouble(proxy):
                    agents[number % 4 // 2].lives(0.3 + rng.random())
            codes |= {answer.id: i % 3 for i, answer in enumerate(sent)}
            assert len(sent) == len(batch), name
    counts = fleet.counts(codes)
    print(f"{PARTITIONS} partitions, {proxy.cuts} connections cut: {counts}")
    counts.check()


def test_connections_that_died_without_a_word_are_noticed_by_agents_and_followers(fleet: Fleet, proxy: Proxy) -> None:
    """A silently dropped connection, without a reset. Takes up to 30 s."""
    fleet.add("east", server=proxy.address)
    gate = fleet.server.folder / "gate"
    id = fleet.submit("east", gate=gate)
    fleet.until_running(id)
    user = fleet.a_client(proxy.address)
    followed = user.watch(JobFilter(ids=[id]), after=0)
    next(followed)
    assert proxy.forget() >= 2
    gate.touch()
    later = fleet.submit("east", code=2)
    last = next(event for event in followed if event.last)
    followed.close()  # type: ignore[attr-defined]  # it is a generator
    user.close()
    counts = fleet.counts({id: 0, later: 2})
    print(f"connections that died without a word: {counts}")
    counts.check()
    assert last.state == "succeeded"


def test_a_submit_whose_answer_was_lost_is_one_job(fleet: Fleet, proxy: Proxy) -> None:
    fleet.add("east")
    ids = []
    with contextlib.closing(fleet.a_client(proxy.address)) as user:
        for number in range(6):
            asked = fleet.submission("east", client_token=f"t{number}")
            user.who_am_i()  # the connection is there
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                with proxy.silent(DOWN):
                    sending = pool.submit(user.submit_one, asked)
                    _until_stored(fleet, number + 1)  # it arrived, and the answer cannot pass
                    assert not sending.done()
                ids.append(sending.result(60).id)
    assert sorted(ids) == sorted(job.id for job in fleet.client.jobs())
    counts = fleet.counts(dict.fromkeys(ids, 0))
    print(f"{len(ids)} answers to submits lost on the way: {counts}")
    counts.check()


def _until_stored(fleet: Fleet, count: int) -> None:
    """Return when the server has this number of jobs."""
    found = set()
    with contextlib.closing(fleet.client.watch(after=0)) as events:
        for event in events:
            found.add(event.job)
            if len(found) == count:
                return


def test_a_watch_misses_no_event_and_doubles_none_across_cuts(fleet: Fleet, proxy: Proxy) -> None:
    fleet.add("east")
    codes = fleet.submit_many(40, seconds=lambda i: 0.02 * (i % 5))
    left = set(codes)
    seen: list[EventInfo] = []
    user = fleet.a_client(proxy.address)
    for event in user.watch(JobFilter(ids=sorted(codes)), after=0):
        seen.append(event)
        left -= {event.job} if event.last else set()
        if not left:
            break
        if len(seen) % 12 == 0:
            proxy.cut()
    user.close()
    whole = fleet.until(codes, lambda event: event.last)
    print(f"{len(whole)} events over {proxy.cuts} cuts: {len(seen)} seen, {len({e.seq for e in seen})} different")
    assert proxy.cuts >= 5
    assert [event.seq for event in seen] == [event.seq for event in whole][: len(seen)]
    assert seen == whole[: len(seen)]
    assert sum(event.last for event in seen) == len(codes)


def test_a_follower_gets_every_byte_once_across_cuts(fleet: Fleet, proxy: Proxy) -> None:
    fleet.add("east", server=proxy.address)
    lines = 60
    script = f"i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; sleep 0.03; done"
    job = fleet.client.submit(["/bin/sh", "-c", script])
    got = b""
    with contextlib.closing(fleet.a_client(proxy.address)) as user:
        for chunk in user.logs(job.id, follow=True):
            got += chunk.data
            if proxy.cuts < 20:
                proxy.cut()
    print(f"{lines} lines followed over {proxy.cuts} cuts")
    assert proxy.cuts >= 3
    assert got.decode().split("\n") == [*(f"line {i + 1}" for i in range(lines)), ""]

"""A stream resumes after a lost connection, without duplicates or gaps."""

import asyncio
import gc
import sys
import threading

import grpc
import pytest

from rainbow_sched.client.async_client import AsyncClient
from rainbow_sched.client.blocking_client import Client
from rainbow_sched.client.connection import Backoff, Timeouts
from rainbow_sched.client.jobs import StreamChunk
from rainbow_sched.client.settings import ClientSettings, addresses
from rainbow_sched.model.errors import NotFound, Unavailable
from rainbow_sched.pb.v2 import jobs_pb2
from tests.support.fake_server import QUICK, InitialMetadata, Refusal, Script, closed_port

CUT = Refusal(grpc.StatusCode.UNAVAILABLE, "cut")


def event(seq, state="bound", job=5):
    return jobs_pb2.Event(seq=seq, job=job, at=1.0, kind="updated", state=state, detail='{"why": "x"}')


def page(state):
    return jobs_pb2.ListJobsResponse(jobs=[jobs_pb2.Job(id=5, state=state)])


def chunk(offset, data, stream="stdout"):
    return jobs_pb2.LogChunk(stream=stream, offset=offset, data=data)


async def test_a_watch_resumes_after_the_last_event_it_saw(server, settings):
    server.answers["Jobs/Watch"] = Script([event(3), event(7), CUT], [CUT], [event(7), event(9)])
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        seen = [one.seq async for one in client.watch(after=2)]
    assert seen == [3, 7, 9]
    assert [asked.request.after for asked in server.asked] == [2, 7, 7]


async def test_a_watch_from_now_on_becomes_one_from_a_number_once_it_has_seen_one(server, settings):
    server.answers["Jobs/Watch"] = Script([CUT], [event(3), CUT], [event(4)])
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        assert [one.seq async for one in client.watch()] == [3, 4]
    assert [asked.request.from_now for asked in server.asked] == [True, True, False]


async def test_a_watch_from_now_on_that_is_cut_before_any_event_misses_none(server, settings, monkeypatch):
    heard = threading.Event()
    server.answers["Jobs/Watch"] = Script([InitialMetadata((("rainbow-after", "7"),), heard), CUT], [event(8)])
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        stream = client.connection.stream

        def listened(rpc, request, begun):
            return stream(rpc, request, lambda said: (begun(said), heard.set()))

        monkeypatch.setattr(client.connection, "stream", listened)
        assert [one.seq async for one in client.watch()] == [8]
    assert [(asked.request.from_now, asked.request.after) for asked in server.asked] == [(True, 0), (False, 7)]


async def test_output_that_comes_again_after_a_cut_is_given_once(server, settings):
    server.answers["Jobs/Logs"] = Script(
        [chunk(0, b"hello "), chunk(0, b"oops", "stderr"), CUT], [chunk(3, b"lo world"), chunk(11, b"!")]
    )
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        got = [one async for one in client.logs(5, follow=True, tail=10)]
    assert b"".join(one.data for one in got if one.stream == "stdout") == b"hello world!"
    assert got[1] == StreamChunk("stderr", 0, b"oops")
    resumed = server.asked[1].request
    assert (resumed.stdout_offset, resumed.stderr_offset, resumed.tail) == (6, 4, 0)


async def test_a_lost_stream_is_given_up_after_the_timeout(server, settings):
    server.answers["Jobs/Watch"] = [CUT]
    impatient = Timeouts(stream=0.0, backoff=Backoff(first=0.001))
    async with AsyncClient(settings=settings, timeouts=impatient) as client:
        with pytest.raises(Unavailable):
            async for _ in client.watch():
                pass


async def test_a_refused_stream_is_not_opened_again(server, settings):
    server.answers["Jobs/Logs"] = [Refusal(grpc.StatusCode.NOT_FOUND, "no job 5", "NotFound")]
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(NotFound):
            async for _ in client.logs(5):
                pass
    assert len(server.asked) == 1


async def test_waiting_reads_the_jobs_events_from_the_first_so_that_none_slips_by(server, settings):
    server.answers["Jobs/Watch"] = Script([event(3), CUT], [event(8, "succeeded")])
    server.answers["Jobs/List"] = Script(page("bound"), page("succeeded"))
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        job = await client.wait(5)
    assert job.ended
    first = server.calls("Jobs/Watch")[0].request
    assert (first.after, first.from_now, list(first.filter.ids)) == (0, False, [5])


async def test_waiting_survives_a_server_that_ends_the_stream_early(server, settings):
    failed = jobs_pb2.Event(seq=4, job=5, state="failed", detail='{"failure": "time-limit"}')
    server.answers["Jobs/Watch"] = Script([event(3)], [event(3), failed])
    server.answers["Jobs/List"] = Script(page("bound"), page("bound"), page("failed"))
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        job = await client.wait(5)
    assert (job.state, job.failure) == ("failed", "time-limit")


async def test_waiting_for_a_job_that_is_not_there_does_not_wait(server, settings):
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse()
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(NotFound, match="no job 5, 6"):
            await client.wait_all([5, 6])


async def test_an_attached_client_outlasts_a_restart_of_the_server(server, settings):
    server.answers["Jobs/Get"] = Script(CUT, CUT, jobs_pb2.Job(id=5))
    impatient = Timeouts(unreachable=0.0, backoff=Backoff(first=0.001, cap=0.002))
    async with AsyncClient(settings=settings, timeouts=impatient) as client:
        with pytest.raises(Unavailable):
            await client.job(5)
        client.connection.outlast_restarts()
        assert (await client.job(5)).id == 5


@pytest.mark.parametrize("ask", ["wait", "logs", "watch"])
async def test_a_server_that_was_never_reached_is_not_retried_for_long(ask):
    nobody = ClientSettings(servers=addresses(f"127.0.0.1:{closed_port()}"))
    impatient = Timeouts(unreachable=0.0, first_contact=0.0, stream=600.0)
    async with AsyncClient(settings=nobody, timeouts=impatient) as client, asyncio.timeout(30):
        client.connection.outlast_restarts()
        with pytest.raises(Unavailable, match="no Rainbow server answers"):
            if ask == "wait":
                await client.wait(5)
            async for _ in client.watch() if ask == "watch" else client.logs(5, follow=True):
                pass


async def test_output_that_is_not_followed_is_not_waited_for(server, settings):
    server.answers["Jobs/Get"] = jobs_pb2.Job(id=5)
    server.answers["Jobs/Logs"] = [CUT]
    async with AsyncClient(settings=settings, timeouts=Timeouts(unreachable=0.0)) as client, asyncio.timeout(30):
        await client.job(5)
        with pytest.raises(Unavailable):
            async for _ in client.logs(5):
                pass


async def test_an_outage_is_reported_once(server, settings):
    server.answers["Jobs/Watch"] = Script([event(3), CUT], [CUT], [CUT], [event(4)])
    told = []
    timeouts = Timeouts(unreachable=0.0, stream=600.0, backoff=Backoff(first=0.001, cap=0.002))
    async with AsyncClient(settings=settings, timeouts=timeouts) as client:
        client.connection.on_unreachable = told.append
        assert [one.seq async for one in client.watch()] == [3, 4]
    assert told
    assert set(told) == {600.0}


@pytest.mark.parametrize("state", ["succeeded", "failed"])
async def test_waiting_for_a_job_leaves_no_stream_open(server, settings, state):
    """A generator that is dropped while it is open is closed by the loop, perhaps after the loop's end."""
    server.answers["Jobs/List"] = Script(page("running"), page(state))
    server.answers["Jobs/Watch"] = [event(1, state), event(2, state)]
    dropped: list[object] = []
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=hooks.firstiter, finalizer=dropped.append)
    try:
        async with AsyncClient(settings=settings, timeouts=QUICK) as client:
            assert (await client.wait(5)).state == state
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert dropped == []


def test_closing_the_client_ends_what_still_runs_on_its_loop(server, settings):
    ended = threading.Event()

    async def forever():
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    client = Client(settings=settings, timeouts=QUICK)
    asyncio.run_coroutine_threadsafe(forever(), client.loop)
    client.close()
    client.close()
    assert ended.is_set()
    assert client.loop.is_closed()
    with pytest.raises(RuntimeError, match="this client is closed"):
        client.jobs()

"""Methods of both clients: requests and results; and the executor."""

import concurrent.futures
import gzip
import inspect
import json
import threading

import pytest

from rainbow_sched.client import AsyncClient, Client, Executor, JobFailed, JobFilter, command
from rainbow_sched.client.clusters import ClusterClient
from rainbow_sched.client.jobs import JobClient
from rainbow_sched.client.settings import ClientSettings, addresses
from rainbow_sched.client.submission import JobSubmission
from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.job import Terms
from rainbow_sched.pb.v2 import clusters_pb2, jobs_pb2
from tests.support.fake_server import QUICK, Script


def ends(server, state="succeeded", code=0, out=b"hi\n"):
    server.answers["Jobs/Submit"] = jobs_pb2.SubmitResponse(id=5, state="queued")
    job = jobs_pb2.Job(id=5, state=state, exit_code=code, reason="as it goes")
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[job])
    server.answers["Jobs/Watch"] = [jobs_pb2.Event(seq=1, job=5, kind="x", state=state)]
    server.answers["Jobs/Logs"] = [
        jobs_pb2.LogChunk(stream="stdout", data=out),
        jobs_pb2.LogChunk(stream="stderr", data=b"warn\n"),
    ]
    server.answers["Jobs/Cancel"] = jobs_pb2.CancelResponse(jobs=[jobs_pb2.Job(id=5, state="cancelling")])


def test_both_clients_have_the_same_verbs():
    verbs = {
        name
        for owner in (JobClient, ClusterClient)
        for name, member in vars(owner).items()
        if inspect.isfunction(member) and not name.startswith("_")
    } | {"submit", "handle", "close"}
    assert {name for name in verbs if not hasattr(Client, name)} == set()


def test_submit_and_result_in_two_calls(server, settings):
    ends(server)
    with Client(settings=settings, timeouts=QUICK) as client:
        result = client.submit(["echo", "hi"], nodes=2, tasks=4, cores=3, name="greet").result()
    assert (result.stdout, result.stderr, result.job.exit_code) == (b"hi\n", b"warn\n", 0)
    asked = server.only("Jobs/Submit")
    spec = json.loads(asked.request.spec.text)
    assert asked.bearer == "Bearer a-token"
    assert asked.request.spec.dialect == "flux"
    assert spec["resources"][0]["count"] == 2
    assert spec["resources"][0]["with"][0]["count"] == 2
    assert spec["tasks"][0]["command"] == ["echo", "hi"]


def test_a_job_that_fails_raises_with_the_job_inside(server, settings):
    ends(server, "failed", 3)
    with Client(settings=settings, timeouts=QUICK) as client:
        with pytest.raises(JobFailed, match="job 5 failed with exit code 3: as it goes") as failed:
            client.submit(["false"]).result()
        assert failed.value.job.exit_code == 3


def test_terms_reach_the_server(server, settings):
    ends(server)
    terms = Terms(priority=4, only_clusters=("perl",), deadline=1000.0, labels={"team": "bio"})
    with Client(settings=settings, timeouts=QUICK) as client:
        client.submit_one(
            JobSubmission(canonical="{}", terms=terms, array="1-9", dependencies=("afterok:3",), client_token="same")
        )
    sent = server.only("Jobs/Submit").request
    assert (sent.terms.priority, list(sent.terms.only_clusters), sent.terms.deadline) == (4, ["perl"], 1000.0)
    assert (sent.terms.delivery, sent.terms.array, list(sent.terms.dependencies)) == (
        "at-most-once",
        "1-9",
        ["afterok:3"],
    )
    assert not sent.terms.HasField("max_cost")
    assert dict(sent.terms.labels) == {"team": "bio"}
    assert sent.client_token == "same"


def test_a_list_is_read_page_by_page_until_the_limit(server, settings):
    def page(request):
        top = request.before or 2001
        ids = range(top - 1, max(0, top - 1 - request.limit), -1)
        return jobs_pb2.ListJobsResponse(jobs=[jobs_pb2.Job(id=i) for i in ids], next=ids[-1] if ids[-1] > 1 else 0)

    server.answers["Jobs/List"] = page
    with Client(settings=settings, timeouts=QUICK) as client:
        assert [job.id for job in client.jobs(limit=1500)] == list(range(2000, 500, -1))
        assert len(client.jobs(JobFilter(owner="user:ana"), limit=5000)) == 2000
    assert server.asked[-1].request.filter.owner == "user:ana"


@pytest.mark.parametrize("size", [10, 3_500_000])
def test_a_graph_goes_up_in_pieces_and_arrives_whole(server, settings, size):
    server.answers["Clusters/PutSubsystem"] = clusters_pb2.PutGraphResponse(vertices=7)
    graph = bytes(i * 7919 % 251 for i in range(997)) * (size // 997 + 1)
    with Client(settings=settings, timeouts=QUICK) as client:
        assert client.put_subsystem("perl", "io", graph) == 7
    header, *pieces = server.only("Clusters/PutSubsystem").requests
    data = b"".join(piece.data for piece in pieces)
    assert header.header.cluster == "perl"
    assert header.header.size == len(data)
    assert all(len(piece.data) <= 1 << 20 for piece in pieces)
    assert (gzip.decompress(data) if size > 1 << 20 else data) == graph
    assert (data[:2] == b"\x1f\x8b") == (size > 1 << 20)


def test_registering_shows_credentials_once_and_never_in_a_repr(server):
    server.answers["Clusters/Register"] = clusters_pb2.RegisterResponse(cluster="perl", token="tok", secret="sec")
    settings = ClientSettings(servers=addresses(server.address), registration_secret="door")
    with Client(settings=settings, timeouts=QUICK) as client:
        answer = client.register("perl", b"{}")
    assert (answer.token, answer.secret) == ("tok", "sec")
    assert "sec" not in repr(answer)
    assert "door" not in repr(settings)
    assert server.only("Clusters/Register").bearer == "Bearer door"


def test_values_print_as_plain_json_with_times_in_utc_and_nothing_unknown(server, settings):
    server.answers["Jobs/Get"] = jobs_pb2.Job(
        id=1, state="bound", submitted_at=1.5, terms=jobs_pb2.Terms(deadline=60, labels={"a": "b"})
    )
    with Client(settings=settings, timeouts=QUICK) as client:
        plain = client.job(1).as_dict()
    assert plain == {
        "id": 1,
        "state": "bound",
        "nodes": 0,
        "attempt": 0,
        "evaluations": 0,
        "submitted_at": "1970-01-01T00:00:01.500Z",
        "terms": {"deadline": "1970-01-01T00:01:00.000Z", "labels": {"a": "b"}},
    }


def test_the_executor_answers_with_futures(server, settings):
    ends(server)
    with Executor(settings=settings, cores=2) as pool:
        futures = [pool.submit(["echo", str(i)]) for i in range(3)]
        done = concurrent.futures.wait(futures).done
        assert {future.result().stdout for future in done} == {b"hi\n"}
        assert [result.stdout for result in pool.map([["a"], ["b"]])] == [b"hi\n"] * 2
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(["echo"])


def test_the_executor_refuses_functions(settings):
    with Executor(settings=settings) as pool, pytest.raises(TypeError, match="runs commands"):
        pool.submit(print)


def test_a_cancelled_future_cancels_its_job(server, settings):
    ends(server)
    cancelled = threading.Event()

    def cancel(request):
        cancelled.set()
        return jobs_pb2.CancelResponse(jobs=[jobs_pb2.Job(id=5)])

    server.answers["Jobs/Watch"] = []
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=[jobs_pb2.Job(id=5, state="bound")])
    server.answers["Jobs/Cancel"] = cancel
    pool = Executor(settings=settings)
    future = pool.submit(["sleep", "60"])
    assert future.cancel()
    assert cancelled.wait(5)
    pool.shutdown()
    assert list(server.calls("Jobs/Cancel")[0].request.ids) == [5]


def _never_ending(server):
    server.answers["Jobs/Submit"] = Script(*(jobs_pb2.SubmitResponse(id=id) for id in range(1, 51)))
    server.answers["Jobs/Watch"] = []
    server.answers["Jobs/List"] = lambda request: jobs_pb2.ListJobsResponse(
        jobs=[jobs_pb2.Job(id=id, state="bound") for id in request.filter.ids]
    )
    server.answers["Jobs/Cancel"] = jobs_pb2.CancelResponse()


def test_a_shutdown_that_cancels_has_cancelled_every_job_when_it_returns(server, settings):
    _never_ending(server)
    pool = Executor(settings=settings)
    futures = [pool.submit(["sleep", "60"]) for _ in range(50)]
    pool.shutdown(cancel_futures=True)
    assert all(future.cancelled() for future in futures)
    assert sorted(server.only("Jobs/Cancel").request.ids) == list(range(1, 51))


def test_jobs_of_futures_that_were_cancelled_just_before_the_end_are_cancelled(server, settings):
    _never_ending(server)
    with Executor(settings=settings) as pool:
        for _ in range(50):
            pool.submit(["sleep", "60"]).cancel()
    assert sorted(call.request.ids[0] for call in server.calls("Jobs/Cancel")) == list(range(1, 51))


async def test_a_submit_without_a_command_says_what_it_takes():
    client = AsyncClient(settings=ClientSettings())
    with pytest.raises(Invalid, match="either a command or a jobspec"):
        await client.submit()
    with pytest.raises(Invalid, match="a jobspec already states its resources"):
        await client.submit(jobspec="x", nodes=2)
    with pytest.raises(Invalid, match="list of words"):
        command("echo hi")
    with pytest.raises(Invalid, match="evenly"):
        command(["a"], nodes=2, tasks=3)


async def test_a_batch_carries_only_the_tokens_of_the_clusters_that_it_names(server, settings):
    server.answers["Jobs/SubmitBatch"] = jobs_pb2.SubmitBatchResponse(jobs=[jobs_pb2.SubmitResponse(id=1)])
    settings = ClientSettings(servers=settings.servers, cluster_tokens={"perl": "p", "gone": "g"})
    pinned = JobSubmission(text="x", terms=Terms(only_clusters=("perl",)))
    async with AsyncClient(settings=settings, timeouts=QUICK) as client:
        await client.submit_batch([pinned])
        await client.submit_batch([pinned, JobSubmission(text="x")])
    sent = [[value for key, value in asked.metadata if key == "rainbow-cluster-token"] for asked in server.asked]
    assert sent == [["perl=p"], ["perl=p", "gone=g"]]


async def test_all_pending_or_running_jobs_are_cancelled_by_the_words_of_the_command_line(server, settings):
    living = [
        jobs_pb2.Job(id=5, state="cancelling", attempt_state="running"),
        jobs_pb2.Job(id=4, state="bound", attempt_state="offered"),
        jobs_pb2.Job(id=3, state="bound", attempt_state="running"),
        jobs_pb2.Job(id=2, state="held"),
    ]
    server.answers["Jobs/List"] = jobs_pb2.ListJobsResponse(jobs=living)
    server.answers["Jobs/Cancel"] = lambda request: jobs_pb2.CancelResponse(
        jobs=[jobs_pb2.Job(id=id, state="cancelled") for id in request.ids]
    )
    async with AsyncClient(settings=settings) as client:
        for word, ids in (("pending", [4, 2]), ("running", [3]), ("active", [5, 4, 3, 2])):
            answers = await client.cancel_all(word, JobFilter(labels={"team": "x"}), reason="enough")
            assert [job.id for job in answers] == ids
        with pytest.raises(Invalid, match="pending, running, active"):
            await client.cancel_all("failed")
        await client.cancel_all("active", JobFilter(states=("queued", "failed")), reason="enough")
        assert list(server.calls("Jobs/List")[-1].request.filter.states) == ["queued"], "no more than was asked for"
        assert await client.cancel_all("active", JobFilter(states=("failed",))) == ()
    asked = server.calls("Jobs/List")[0].request.filter
    assert dict(asked.labels) == {"team": "x"}
    assert set(asked.states) == {"held", "queued", "bound", "cancelling"}
    assert {call.request.reason for call in server.calls("Jobs/Cancel")} == {"enough"}
    with Client(settings=settings) as client:
        assert [job.id for job in client.cancel_all("running")] == [3]


async def test_thousands_of_jobs_are_cancelled_in_several_calls(server, settings):
    sizes: list[int] = []

    def cancel(request):
        sizes.append(len(request.ids))
        return jobs_pb2.CancelResponse(jobs=[jobs_pb2.Job(id=id, state="cancelled") for id in request.ids])

    server.answers["Jobs/Cancel"] = cancel
    async with AsyncClient(settings=settings) as client:
        done = await client.cancel(range(1, 12_001))
    assert sizes == [5_000, 5_000, 2_000]
    assert [job.id for job in done] == list(range(1, 12_001))

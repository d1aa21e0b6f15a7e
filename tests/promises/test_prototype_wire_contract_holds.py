"""What the first Rainbow's Go client sends, sent by stubs of the same contract."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest

from rainbow_sched.pb.prototype import memory_pb2, memory_pb2_grpc, rainbow_pb2, rainbow_pb2_grpc
from tests.support.jgf import dict_jgf, subsystem_jgf
from tests.support.server_process import SECRET, ServerProcess

SPEC = """\
version: 1
resources:
  task-resources:
    type: rack
    replicas: 1
    with:
    - {type: node, count: 2, with: [{type: core, count: 8}]}
tasks:
- {name: app, command: [echo, "quoted ' \\" -- text"], replicas: 1, resources: task-resources}
"""


@pytest.fixture
def stub(server: ServerProcess) -> Iterator[rainbow_pb2_grpc.RainbowSchedulerStub]:
    with server.channel() as channel:
        yield rainbow_pb2_grpc.RainbowSchedulerStub(channel)


def register(stub: rainbow_pb2_grpc.RainbowSchedulerStub, name: str, **shape: int) -> rainbow_pb2.RegisterResponse:
    request = rainbow_pb2.RegisterRequest(name=name, secret=SECRET, nodes=json.dumps(dict_jgf(**shape)), subsystem="")
    answer: rainbow_pb2.RegisterResponse = stub.Register(request)
    assert answer.status == rainbow_pb2.RegisterResponse.REGISTER_SUCCESS
    return answer


def submission(made: rainbow_pb2.RegisterResponse, name: str, **fields: object) -> rainbow_pb2.SubmitJobRequest:
    entries = [
        rainbow_pb2.SubmitJobRequest.Cluster(),
        rainbow_pb2.SubmitJobRequest.Cluster(name=name, token=made.token),
    ]
    return rainbow_pb2.SubmitJobRequest(name="app", clusters=entries, jobspec=SPEC, **fields)  # type: ignore[arg-type]


def test_submit_is_satisfy_then_submit_with_empty_entries(
    server: ServerProcess, stub: rainbow_pb2_grpc.RainbowSchedulerStub
) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    register(stub, "small", nodes=1, cores=4)
    with server.channel() as channel:
        graph = memory_pb2_grpc.MemoryGraphStub(channel)
        import yaml

        answer = graph.Satisfy(memory_pb2.SatisfyRequest(payload=json.dumps(yaml.safe_load(SPEC))))
    assert (list(answer.clusters), answer.status) == (["east"], 1)
    assert (answer.total_clusters, answer.total_matches, answer.total_mismatches) == (2, 1, 1)
    done = stub.SubmitJob(submission(made, "east"))
    assert (done.status, done.cluster) == (1, "east")
    assert done.jobid > 0
    second = stub.SubmitJob(submission(made, "east"))
    assert second.jobid > done.jobid


def test_satisfy_only_names_the_clusters_and_stores_nothing(
    server: ServerProcess, stub: rainbow_pb2_grpc.RainbowSchedulerStub
) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    answer = stub.SubmitJob(submission(made, "east", satisfy_only=True))
    assert (answer.status, list(answer.clusters), answer.jobid) == (1, ["east"], 0)
    assert json.loads(server.run("jobs", "-a", "-o", "json").stdout)["jobs"] == []


def test_the_jobspec_comes_back_byte_for_byte(stub: rainbow_pb2_grpc.RainbowSchedulerStub) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    sent = stub.SubmitJob(submission(made, "east"))
    got = stub.ReceiveJobs(rainbow_pb2.ReceiveJobsRequest(cluster="east", secret=made.secret, maxJobs=10))
    assert got.status == rainbow_pb2.ReceiveJobsResponse.REQUEST_JOBS_SUCCESS
    job = json.loads(got.jobs[sent.jobid])
    assert job["jobspec"] == SPEC
    assert (job["id"], job["cluster"], job["name"], job["command"]) == (sent.jobid, "east", "app", "")


def test_no_two_receivers_get_one_job(stub: rainbow_pb2_grpc.RainbowSchedulerStub) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    for _ in range(5):
        stub.SubmitJob(submission(made, "east"))
    ask = rainbow_pb2.ReceiveJobsRequest(cluster="east", secret=made.secret, maxJobs=3)
    first, second, third = (set(stub.ReceiveJobs(ask).jobs) for _ in range(3))
    assert len(first | second) == 5
    assert not first & second
    assert not third
    accepted = stub.AcceptJobs(rainbow_pb2.AcceptJobsRequest(cluster="east", secret=made.secret, jobids=sorted(first)))
    assert accepted.status == rainbow_pb2.AcceptJobsResponse.RESULT_TYPE_SUCCESS
    again = stub.AcceptJobs(rainbow_pb2.AcceptJobsRequest(cluster="east", secret=made.secret, jobids=sorted(first)))
    assert again.status == rainbow_pb2.AcceptJobsResponse.RESULT_TYPE_PARTIAL


def test_replies_stay_under_the_clients_limit_however_long_the_queue(
    stub: rainbow_pb2_grpc.RainbowSchedulerStub,
) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    long = SPEC + "# " + "x" * 60_000 + "\n"
    entries = [rainbow_pb2.SubmitJobRequest.Cluster(name="east", token=made.token)]
    for _ in range(80):
        stub.SubmitJob(rainbow_pb2.SubmitJobRequest(name="long", clusters=entries, jobspec=long))
    seen: set[int] = set()
    ask = rainbow_pb2.ReceiveJobsRequest(cluster="east", secret=made.secret)
    for _ in range(10):
        answer = stub.ReceiveJobs(ask)
        assert answer.ByteSize() < 4 * 1024 * 1024
        if not answer.jobs:
            break
        seen |= set(answer.jobs)
        stub.AcceptJobs(rainbow_pb2.AcceptJobsRequest(cluster="east", secret=made.secret, jobids=list(answer.jobs)))
    assert len(seen) == 80


def test_subsystems_and_clusters_are_deleted(stub: rainbow_pb2_grpc.RainbowSchedulerStub) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    io = json.dumps(subsystem_jgf("io", ["2"], {"type": "shm"}))
    stub.RegisterSubsystem(rainbow_pb2.RegisterRequest(name="east", secret=made.secret, nodes=io, subsystem="io"))
    gone = stub.DeleteSubsystem(rainbow_pb2.DeleteRequest(name="east", secret=made.secret, subsytem="io"))
    assert gone.status == rainbow_pb2.DeleteResponse.DELETE_SUCCESS
    assert stub.Delete(rainbow_pb2.DeleteRequest(name="east", secret=made.secret)).status == 0
    with pytest.raises(grpc.RpcError) as denied:
        stub.ReceiveJobs(rainbow_pb2.ReceiveJobsRequest(cluster="east", secret=made.secret))
    assert denied.value.code() is grpc.StatusCode.UNAUTHENTICATED
    register(stub, "east", nodes=1, cores=1)


def test_denials_are_errors_never_answers(stub: rainbow_pb2_grpc.RainbowSchedulerStub) -> None:
    made = register(stub, "east", nodes=3, cores=4)
    nodes = json.dumps(dict_jgf())
    bad = [
        lambda: stub.Register(rainbow_pb2.RegisterRequest(name="new", secret="wrong", nodes=nodes)),
        lambda: stub.Register(rainbow_pb2.RegisterRequest(name="new", nodes=nodes)),
        lambda: stub.UpdateState(rainbow_pb2.UpdateStateRequest(cluster="east", secret="wrong", payload="{}")),
        lambda: stub.UpdateState(rainbow_pb2.UpdateStateRequest(cluster="east", secret=made.token, payload="{}")),
        lambda: stub.SubmitJob(rainbow_pb2.SubmitJobRequest(name="x", jobspec=SPEC)),
        lambda: stub.SubmitJob(submission(rainbow_pb2.RegisterResponse(token="wrong"), "east")),
        lambda: stub.SubmitJob(submission(made, "other")),
        lambda: stub.Delete(rainbow_pb2.DeleteRequest(name="east", secret="wrong")),
    ]
    for call in bad:
        with pytest.raises(grpc.RpcError) as denied:
            call()
        assert denied.value.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


PRIORITIES = """\
- priority: 1
  steps:
  - filter: nodes_free > 0
  - sort_descending: nodes_free
  - select: first
"""


def test_the_algorithm_and_its_options_choose_and_rank(stub: rainbow_pb2_grpc.RainbowSchedulerStub) -> None:
    entries = []
    for name, free in (("aa", 1), ("bb", 9), ("cc", 0)):
        made = register(stub, name, nodes=3, cores=4)
        state = json.dumps({"nodes_free": free})
        stub.UpdateState(rainbow_pb2.UpdateStateRequest(cluster=name, secret=made.secret, payload=state))
        entries.append(rainbow_pb2.SubmitJobRequest.Cluster(name=name, token=made.token))
    by_constraint = {"select_algorithm": "constraint", "select_options": {"priorities": PRIORITIES}}

    def submit(**fields: object) -> rainbow_pb2.SubmitJobResponse:
        answer: rainbow_pb2.SubmitJobResponse = stub.SubmitJob(
            rainbow_pb2.SubmitJobRequest(name="app", clusters=entries, jobspec=SPEC, **fields)  # type: ignore[arg-type]
        )
        return answer

    assert list(submit(satisfy_only=True, **by_constraint).clusters) == ["bb", "aa"]
    assert submit(**by_constraint).cluster == "bb"
    bids = submit(select_algorithm="start")  # is decided after it was stored; the answer names the cluster all the same
    assert bids.cluster in ("aa", "bb", "cc")
    with pytest.raises(grpc.RpcError, match="there is no policy 'nope'"):
        submit(select_algorithm="nope")

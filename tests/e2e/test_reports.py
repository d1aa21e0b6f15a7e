"""Reports of agents to a real server: each is processed separately, and none prevents another."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.pb.v2 import agents_pb2, clusters_pb2, jobs_pb2
from tests.support.calls import Calls, bearer
from tests.support.server_process import RAINBOW, ServerProcess
from tests.support.service import a_graph, a_request
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(120)
STATES = (*AttemptState, "evicted")
FAILURES = ("", *Failure, "flood")
EXIT_CODES = (None, 0, 1, 137, 255, 256, -1)
LARGEST = 2**63 - 1


class Speaker:
    """The agent of one cluster, which sends given reports."""

    def __init__(self, calls: Calls, cluster: str, secret: str) -> None:
        self.calls, self.cluster, self.secret, self.seq = calls, cluster, secret, 0

    def says(self, **fields: object) -> agents_pb2.SyncResponse:
        """One Sync that does not wait."""
        self.seq += 1
        message = agents_pb2.SyncRequest(cluster=self.cluster, epoch=f"{self.cluster}.1", seq=self.seq, **fields)
        answer: agents_pb2.SyncResponse = self.calls.agents.Sync(message, metadata=bearer(self.secret), timeout=20)
        return answer

    def takes(self, count: int) -> list[agents_pb2.AttemptRef]:
        """Take so many jobs, to the point where the server has confirmed them."""
        refs: list[agents_pb2.AttemptRef] = []
        while len(refs) < count:
            refs += [offer.attempt for offer in self.says(want=count - len(refs)).offers]
        assert len(self.says(accepts=refs).confirms) == count
        return refs

    def state_of(self, job: int) -> tuple[str, str]:
        """Return the states of a job and its attempt on the server."""
        found = self.calls.jobs.Get(jobs_pb2.GetJobRequest(id=job), metadata=self.calls.who, timeout=20)
        return found.state, found.attempt_state


@contextmanager
def speaker(server: ServerProcess, cluster: str = "east", cores: int = 4) -> Iterator[Speaker]:
    with server.channel() as channel:
        calls = Calls(channel, server.admin_token)
        yield Speaker(calls, cluster, calls.register(cluster, a_graph(nodes=1, cores=cores)).secret)


def submit(calls: Calls, count: int, cluster: str = "") -> list[int]:
    terms = jobs_pb2.Terms(only_clusters=[cluster] if cluster else [])
    one = jobs_pb2.SubmitRequest(name="job", spec=jobs_pb2.Spec(canonical=to_json(a_request())), terms=terms)
    batch = jobs_pb2.SubmitBatchRequest(jobs=[one] * count)
    return [made.id for made in calls.jobs.SubmitBatch(batch, metadata=calls.who, timeout=30).jobs]


def understood(state: str, failure: str, code: int | None) -> bool:
    """By docs/protocol.md: what an agent may report."""
    ends = {"succeeded", "failed", "cancelled", "preempted", "returned"}
    if state not in ends | {"submitted", "running", "finishing"} or failure in ("flood", "lost"):
        return False
    if code is not None and not 0 <= code <= 255:
        return False
    if state not in ends and (failure or code is not None):
        return False
    if state == "returned" and (code is not None or failure not in ("", "launch", "refused")):
        return False
    return state != "succeeded" or (not failure and code in (None, 0))


def test_every_report_that_can_be_made_ends_as_the_protocol_says(server: ServerProcess) -> None:
    said = list(itertools.product(map(str, STATES), map(str, FAILURES), EXIT_CODES))
    with speaker(server, cores=len(said)) as agent:
        submit(agent.calls, len(said))
        refs = agent.takes(len(said))
        reports = [
            agents_pb2.Report(attempt=ref, state=state, failure=failure, exit_code=code, reason="so it was")
            for ref, (state, failure, code) in zip(refs, said, strict=True)
        ]
        answer = agent.says(reports=reports)
        unknown, acked = ({ref.job for ref in refs} for refs in (answer.unknown_reports, answer.acked_reports))
        listed = {job.id: job for job in agent.calls.listed()}
        for ref, (state, failure, code) in zip(refs, said, strict=True):
            job, about = listed[ref.job], f"{state} {failure} {code}"
            assert (ref.job in unknown) is not understood(state, failure, code), about
            if ref.job in unknown:
                assert (job.state, job.attempt, job.attempt_state) == ("bound", 1, "accepted"), about
                assert ref.job not in acked, about
            elif state in LIVE:
                assert (job.state, job.attempt, job.attempt_state) == ("bound", 1, state), about
            elif state == "returned":  # retries are 0: it costs none
                assert job.state in ("queued", "held", "bound"), about
                assert job.attempt_state == "returned" or job.attempt == 2, about
                assert ref.job in acked, about
            else:
                end = "succeeded" if state == "succeeded" else "failed"
                assert (job.state, job.attempt_state, ref.job in acked) == (end, state, True), about
        assert len(unknown) > 900
        told = server.run("explain", str(min(unknown))).stdout
        assert "Reports that the server does not understand" in told
        assert "offered" in told


def test_a_job_returned_after_the_confirm_goes_elsewhere_with_the_reason_for_free(
    server: ServerProcess,
) -> None:
    with speaker(server) as agent:
        [job] = submit(agent.calls, 1)
        [ref] = agent.takes(1)
        with server.channel() as channel:
            Calls(channel, server.admin_token).register("west", a_graph(nodes=1))
        told = agent.says(reports=[agents_pb2.Report(attempt=ref, state="returned", reason="its node is gone")])
        assert [one.job for one in told.acked_reports] == [job]
        until(lambda: agent.state_of(job) == ("bound", "offered"), "the job's second attempt")
        found = agent.calls.jobs.Explain(jobs_pb2.ExplainRequest(id=job), metadata=agent.calls.who, timeout=20)
        assert found.job.cluster == "west"
        back = [json.loads(event.detail) for event in found.events if event.kind == "unbound"]
        assert back == [{"why": "returned", "reason": "its node is gone", "counted": ""}]


def bad_items(theirs: agents_pb2.AttemptRef, mine: agents_pb2.AttemptRef) -> Iterable[tuple[str, dict[str, object]]]:
    """Everything that can be wrong with one item of a Sync: fields of a message, and what is wrong with them."""
    nobody = agents_pb2.AttemptRef(job=LARGEST, n=2**31 - 1, token="x" * 1000)
    nan, inf = float("nan"), float("inf")
    for name, ref in (("another cluster's", theirs), ("nobody's", nobody), ("an empty", agents_pb2.AttemptRef())):
        yield f"{name} report", {"reports": [agents_pb2.Report(attempt=ref, state="succeeded")]}
        yield f"{name} unknown report", {"reports": [agents_pb2.Report(attempt=ref, state="molten")]}
        yield f"{name} accept", {"accepts": [ref]}
        yield f"{name} reject", {"rejects": [agents_pb2.Reject(attempt=ref, reason="no")]}
        yield f"{name} held", {"held": [agents_pb2.Held(attempt=ref, state="molten")]}
        yield f"{name} output", {"output": [agents_pb2.Output(attempt=ref, stream="stdout", offset=0, data=b"x")]}
    for offset in (-1, LARGEST, LARGEST - 1, 2**62):
        yield (
            f"offset {offset}",
            {"output": [agents_pb2.Output(attempt=mine, stream="stdout", offset=offset, data=b"xy")]},
        )
    yield "stream", {"output": [agents_pb2.Output(attempt=mine, stream="std\0log", offset=0, data=b"x")]}
    for number in (nan, inf, -inf, -1.0, 1e300):
        times = {"started_at": number, "ended_at": number}
        yield f"times {number}", {"reports": [agents_pb2.Report(attempt=mine, state="submitted", **times)]}
        bid = {"start_p50": number, "start_p90": number, "cost": number, "valid_for": number, "runtime_factor": number}
        yield f"bid {number}", {"bids": [agents_pb2.Bid(id="b1", yes=True, **bid)]}
        yield f"wait {number}", {"wait": number if number < 1 or number != number else 0.0}
    for text in ("", "[", "[]", "7", '{"a": NaN}', '{"a": {"b": {}}}', '{"": 1}', '{"a": 1e999}', "[" * 90_000):
        yield f"state {text[:20]}", {"state": text}
    yield "a large number", {"state": json.dumps({"a": 10**400})}
    yield "too many keys", {"state": json.dumps({str(i): i for i in range(2_000)})}
    yield "too much state", {"state": json.dumps({"a": "x" * 300_000})}
    yield "NUL in a state", {"state": json.dumps({"a\0": "\0"})}
    yield "marks", {"marks": {"nowhere": "up", "n0": "upside down", "": "\0"}}
    yield "used", {"has_used": True, "used": {"nowhere": 1, "0": -LARGEST, "1": LARGEST}}
    yield "NUL", {"reports": [agents_pb2.Report(attempt=mine, state="submitted", native_id="a\0b", reason="\0")]}
    yield "NUL in a word", {"reports": [agents_pb2.Report(attempt=mine, state="sub\0mitted", native_id="a\0b")]}
    yield "acks", {"command_acks": [LARGEST, -LARGEST, 0, 1]}
    yield "bids", {"bids": [agents_pb2.Bid(id="\0" * 10_000, reason="x" * 100_000)]}
    yield "accept", {"accept_only": "nodes <", "want": 1}
    yield "order", {"order_by": "((((", "want": 1}
    yield "manager", {"manager": "\0" * 100}
    yield "want", {"want": -(2**31)}


def test_one_bad_item_in_a_sync_stops_no_other(server_on_each: ServerProcess) -> None:
    server = server_on_each
    with speaker(server, cores=400) as agent, speaker(server, "west") as other:
        submit(other.calls, 1, "west")
        [theirs] = other.takes(1)
        count = len(list(bad_items(theirs, theirs)))
        submit(agent.calls, 3 * count, "east")
        refs = agent.takes(2 * count)
        for number in range(count):
            mine, bad_one = refs[2 * number], refs[2 * number + 1]
            what, fields = list(bad_items(theirs, bad_one))[number]
            good = agents_pb2.Report(attempt=mine, state="running", native_id=f"n{number}")
            output = agents_pb2.Output(attempt=mine, stream="stdout", offset=0, data=b"good")
            message = agents_pb2.SyncRequest(reports=[good], output=[output], state=json.dumps({"round": number}))
            bad = agents_pb2.SyncRequest(**fields)
            if bad.HasField("state"):
                message.ClearField("state")
            message.MergeFrom(bad)
            names = {field.name: value for field, value in message.ListFields()}
            answer = agent.says(**names)
            assert agent.state_of(mine.job) == ("bound", "running"), what
            acks = [(ack.attempt.job, ack.next_offset) for ack in answer.output_acks]
            assert (mine.job, 4) in acks, what
            assert agent.state_of(bad_one.job)[0] == "bound", what
            if not bad.HasField("state"):
                shown = state_of_cluster(agent.calls, "east")
                assert shown["round"] == number, what
            assert agent.state_of(theirs.job) == ("bound", "accepted"), what
        assert "Traceback" not in server.log


def state_of_cluster(calls: Calls, cluster: str) -> dict[str, object]:
    found = calls.clusters.Get(clusters_pb2.GetClusterRequest(cluster=cluster), metadata=calls.who, timeout=20)
    state: dict[str, object] = json.loads(found.state)
    return state


@contextmanager
def an_agent(server: ServerProcess, folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real agent that registers this machine; it ends with the block."""
    command = [
        *RAINBOW,
        "agent",
        "--cluster",
        "here",
        "--register",
        "auto",
        "--state-dir",
        str(folder / "here"),
        *words,
    ]
    command += ["--run-as-root"] if os.geteuid() == 0 else []
    environment = server.environment() | {"RAINBOW_SERVER": server.address}
    with (folder / "here.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def jobs(server: ServerProcess) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in json.loads(server.run("jobs", "-a", "-o", "json").stdout)["jobs"]}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor: a machine cannot lose one and go on")
def test_a_machine_that_loses_a_core_returns_what_no_longer_fits_and_its_cluster_goes_on(
    server: ServerProcess, tmp_path: Path
) -> None:
    two = sorted(os.sched_getaffinity(0))[:2]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, two)
    try:
        with an_agent(server, tmp_path, "--rediscover", "1") as agent:
            os.sched_setaffinity(0, before)
            until(lambda: "here" in server.run("clusters", check=False).stdout, "the registration")
            submit = ("submit", "-o", "name", "-t", "5m")
            long = int(server.run(*submit, "-n1", "--", "sleep", "200").stdout)
            until(lambda: jobs(server)[long].get("attempt_state") == "running", "the first job's start")
            wide = int(server.run(*submit, "-n1", "-c2", "--select", "start", "--", "true").stdout)
            until(lambda: jobs(server)[wide].get("attempt_state") == "submitted", "the second job's place in the queue")
            for thread in Path(f"/proc/{agent.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), two[:1])
            until(lambda: jobs(server)[wide].get("attempt_state") == "returned", "the return")
            assert jobs(server)[wide]["state"] in ("queued", "held"), "it waits for a cluster that fits"
            told = json.loads(server.run("explain", str(wide), "-o", "json").stdout)
            [back] = [event["detail"] for event in told["events"] if event["kind"] == "unbound"]
            assert back["why"] == "returned"
            assert back["reason"].startswith("the machine changed: ")
            server.run("cancel", str(long))
            until(lambda: jobs(server)[long]["state"] == "cancelled", "the end of the first job")
            small = int(server.run(*submit, "-n1", "--", "true").stdout)
            until(lambda: jobs(server)[small]["state"] == "succeeded", "another job on the same cluster")
    finally:
        os.sched_setaffinity(0, before)

"""The loop with a real journal and real processes; the server is a small one in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest

from rainbow_sched.agent.backends import BackendSettings, load_backend
from rainbow_sched.agent.backends.local.backend import LocalBackend
from rainbow_sched.agent.core.journal_records import restored
from rainbow_sched.agent.core.state import AgentLimits
from rainbow_sched.agent.runtime.journal import Journal
from rainbow_sched.agent.runtime.link import ServerLink
from rainbow_sched.agent.runtime.loop import Agent, AgentParts
from rainbow_sched.agent.runtime.site_rules import SiteRules
from rainbow_sched.client.settings import Address, ClientSettings
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import NotFound, Unauthenticated, Unavailable
from rainbow_sched.pb.v2 import agents_pb2, agents_pb2_grpc
from rainbow_sched.protocol.messages import (
    AttemptRef,
    Offer,
    OutputPiece,
    Report,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
    SyncRequest,
)
from rainbow_sched.selection.expressions import compile_expression
from tests.support.backends import a_graph, a_request


@dataclass
class Desk:
    """A server with a list of offers; keeps what it is told, and answers at once when there is something to say."""

    offers: list[Offer] = field(default_factory=list)
    ends: dict[AttemptRef, Report] = field(default_factory=dict)
    rejects: dict[AttemptRef, str] = field(default_factory=dict)
    output: dict[AttemptRef, bytes] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    broken: int = 0  # how many calls fail before one succeeds
    given: set[AttemptRef] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    async def sync(self, message: SyncMessage) -> SyncAnswer:
        if self.broken:
            self.broken -= 1
            raise Unavailable("no server answers")
        for chunk in message.output:
            kept = self.output.get(chunk.ref, b"")
            self.output[chunk.ref] = kept[: chunk.offset] + chunk.data
        self.states += [report.state for report in message.reports]
        self.ends.update({report.ref: report for report in message.reports if report.ends})
        self.rejects.update(dict(message.rejects))
        new = [offer for offer in self.offers if offer.ref not in self.given][: message.want]
        self.given.update(offer.ref for offer in new)
        acked = tuple(report.ref for report in message.reports if report.ends)
        if not (new or message.accepts or acked or message.output) and message.wait:
            self.woken.set()
            await asyncio.sleep(min(message.wait, 0.02))
        acks = tuple((chunk.ref, chunk.stream, chunk.offset + len(chunk.data)) for chunk in message.output)
        return SyncAnswer(ack=message.seq, offers=tuple(new), confirms=message.accepts, acked=acked, output_acks=acks)


def an_offer(job: int, *command: str, **fields: object) -> Offer:
    return Offer(ref=AttemptRef(job, 1, f"t{job}"), owner="user:ana", spec=to_json(a_request(*command, **fields)))


@dataclass
class Site:
    """A place where agents come and go."""

    directory: Path
    desk: Desk

    async def run(self, **more: object) -> None:
        """One agent, until it has nothing left to do."""
        with Journal(self.directory) as journal:
            async with asyncio.timeout(30):
                await self.agent(journal, once=True, **more).run()

    def agent(self, journal: Journal, *, once: bool, rules: SiteRules | None = None) -> Agent:
        settings = BackendSettings(cluster="here", directory=self.directory, graph=a_graph())
        parts = AgentParts(
            cluster="here",
            link=self.desk,
            backend=load_backend("local")(settings),
            journal=journal,
            rules=rules or SiteRules(),
            limits=AgentLimits(max_wait=0.5),
        )
        return Agent(parts, once=once)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, Desk())


async def test_jobs_are_taken_run_and_reported_with_their_output(site: Site):
    site.desk.offers = [an_offer(1, "echo", "one"), an_offer(2, "sh", "-c", "exit 3"), an_offer(3, "echo", "three")]
    await site.run()
    assert {ref.job: report.state for ref, report in site.desk.ends.items()} == {
        1: "succeeded",
        2: "failed",
        3: "succeeded",
    }
    assert site.desk.ends[AttemptRef(2, 1, "t2")].exit_code == 3
    assert site.desk.output[AttemptRef(1, 1, "t1")] == b"one\n"
    assert list((site.directory / "jobs").iterdir()) == [], "what the server has is tidied away"


async def test_what_the_site_or_the_backend_refuses_is_handed_back_with_the_reason(site: Site):
    site.desk.offers = [
        an_offer(1, "true"),
        an_offer(2, "true", type="gpu"),
        Offer(ref=AttemptRef(3, 1, "t3"), spec="?"),
    ]
    await site.run(rules=SiteRules(accept=compile_expression("cores < 1")))
    reasons = {ref.job: reason for ref, reason in site.desk.rejects.items()}
    assert "cores < 1" in reasons[1]
    assert "gpu" in reasons[2]
    assert "cannot read" in reasons[3]
    assert site.desk.ends == {}


async def test_an_unreachable_server_is_tried_again_and_nothing_is_lost(site: Site):
    site.desk.offers = [an_offer(1, "echo", "hi")]
    site.desk.broken = 2
    await site.run()
    assert site.desk.ends[AttemptRef(1, 1, "t1")].state == "succeeded"


@pytest.mark.parametrize("verb", ["poll", "facts", "forget"])
async def test_a_mistake_in_a_driver_is_logged_whole_and_the_agent_goes_on(
    site: Site, verb: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    works, faults = getattr(LocalBackend, verb), [KeyError("JobState")]

    async def fails_once(self: LocalBackend, *args: str) -> object:
        if faults:
            raise faults.pop()
        return await works(self, *args)

    monkeypatch.setattr(LocalBackend, verb, fails_once)
    site.desk.offers = [an_offer(1, "echo", "hi")]
    await site.run()
    assert site.desk.ends[AttemptRef(1, 1, "t1")].state == "succeeded"
    [said] = [record for record in caplog.records if "JobState" in record.message]
    assert said.exc_info is not None


async def test_the_end_of_a_job_is_told_with_its_reason_if_there_is_one(site: Site, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", logger="rainbow.agent")
    site.desk.offers = [an_offer(1, "true"), an_offer(2, "false")]
    await site.run()
    assert {"rb-1-1: succeeded", "rb-2-1: failed (exit code 1)"} <= {record.message for record in caplog.records}


async def test_a_server_that_is_away_is_spoken_of_once(site: Site, caplog: pytest.LogCaptureFixture):
    site.desk.broken = 3
    await site.run()
    said = [record.message for record in caplog.records if "no server answers" in record.message]
    assert len(said) == 1
    assert "retrying" in said[0]


async def test_a_stopped_agent_leaves_its_job_running_and_the_next_one_reports_it(site: Site):
    gate = site.directory / "go"
    site.desk.offers = [an_offer(1, "sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.02; done; echo done")]
    with Journal(site.directory) as journal:
        agent = site.agent(journal, once=False)
        running = asyncio.create_task(agent.run())
        async with asyncio.timeout(20):
            while "running" not in site.desk.states:
                site.desk.woken.clear()
                await site.desk.woken.wait()
        agent.stop()
        await running
    assert site.desk.ends == {}
    gate.touch()
    await site.run()
    assert site.desk.ends[AttemptRef(1, 1, "t1")].state == "succeeded"
    assert site.desk.output[AttemptRef(1, 1, "t1")] == b"done\n"


async def test_a_journal_that_is_always_too_long_is_compacted_on_the_way_and_loses_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Journal, "is_long", True)
    site.desk.offers = [an_offer(job, "echo", "one") for job in range(1, 9)]
    await site.run()
    assert {report.state for report in site.desk.ends.values()} == {"succeeded"}
    assert len(site.desk.ends) == 8
    with Journal(site.directory) as journal:
        held, past = restored(journal.records)
    assert held == {}
    assert set(past) == set(site.desk.ends)


class Grpc(agents_pb2_grpc.AgentsServicer):
    """A real gRPC server that keeps the last request and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[agents_pb2.SyncRequest] = []
        self.bearers: list[str] = []
        self.answer: Callable[[agents_pb2.SyncRequest], agents_pb2.SyncResponse] = lambda request: (
            agents_pb2.SyncResponse(ack=request.seq)
        )

    async def Sync(self, request, context):
        self.bearers.append(dict(context.invocation_metadata()).get("authorization", ""))
        if self.bearers[-1] != "Bearer right":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        self.seen.append(request)
        return self.answer(request)


@pytest.fixture
async def served() -> AsyncIterator[tuple[Grpc, ClientSettings]]:
    servicer, server = Grpc(), grpc.aio.server()
    agents_pb2_grpc.add_AgentsServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    dead = Address("127.0.0.1", 1, False)
    yield servicer, ClientSettings(servers=(dead, Address("127.0.0.1", port, False)))
    await server.stop(None)


async def test_a_message_crosses_the_wire_and_finds_the_server_that_lives(served):
    servicer, settings = served
    ref = AttemptRef(1, 2, "t")
    servicer.answer = lambda request: agents_pb2.SyncResponse(
        ack=request.seq,
        heartbeat=7.0,
        offers=[
            agents_pb2.Offer(
                attempt=agents_pb2.AttemptRef(job=9, n=1, token="x"), is_array=True, array_index=0, lease=60.0
            )
        ],
        commands=[
            agents_pb2.Command(id=3, kind="cancel", attempt=agents_pb2.AttemptRef(job=1, n=2, token="t"), reason="why")
        ],
    )
    rules = NodeRules(hosts=True, subsystems=frozenset({"features"}), one_group="why", merges=True)
    link = ServerLink(
        settings,
        SyncRequest(message=SyncMessage(seq=0), cluster="here", epoch="e1", manager="local", accept_only="cores > 1"),
        "right",
        lambda: rules,
    )
    end = Report(
        ref=ref, state=AttemptState.FAILED, exit_code=0, failure=Failure.TIME_LIMIT, reason="late", ended_at=5.0
    )
    message = SyncMessage(
        seq=4,
        held=((ref, "running"),),
        reports=(end,),
        output=(OutputPiece(ref, "stdout", 10, b"\xff\x00"),),
        want=3,
    )
    answer = await link.sync(message)
    await link.close()
    (seen,) = servicer.seen
    assert (seen.cluster, seen.epoch, seen.seq, seen.want) == ("here", "e1", 4, 3)
    assert (seen.node_rules.hosts, list(seen.node_rules.subsystems)) == (True, ["features"])
    assert (seen.node_rules.one_group, seen.node_rules.merges) == ("why", True)
    assert (seen.reports[0].exit_code, seen.reports[0].failure, seen.reports[0].HasField("started_at")) == (
        0,
        "time-limit",
        False,
    )
    assert seen.output[0].data == b"\xff\x00"
    assert answer.heartbeat == 7.0
    assert answer.offers[0].array_index == 0
    assert answer.commands == (ServerCommand(3, "cancel", ref, "why"),)


async def test_a_refused_credential_is_named_as_such(served):
    link = ServerLink(
        served[1], SyncRequest(message=SyncMessage(seq=0), cluster="here", epoch="e1"), "wrong", NodeRules
    )
    with pytest.raises(Unauthenticated, match="who are you"):
        await link.sync(SyncMessage(seq=1))
    await link.close()


def test_an_unknown_backend_is_answered_with_the_nearest_name():
    with pytest.raises(NotFound, match="did you mean 'local'"):
        load_backend("locol")

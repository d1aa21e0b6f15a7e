"""The allowed hosts of a job on their way: from the wire to the journal and the backend, and its nodes back again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from rainbow_sched.agent.backends.base import Backend, CannotBind
from rainbow_sched.agent.core import events as e
from rainbow_sched.agent.core.journal_records import compacted, offer_record, restored
from rainbow_sched.agent.core.values import LocalAttempt, Phase, Result, Update
from rainbow_sched.agent.runtime.journal import line, parse
from rainbow_sched.agent.runtime.loop import BackendCalls
from rainbow_sched.agent.runtime.site_rules import SiteRules
from rainbow_sched.jobspecs.canonical import to_json
from rainbow_sched.model.attempt import AttemptState
from rainbow_sched.model.binding import WRONG_NODES, GroupHosts, NodeRules
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import answer_from_proto, request_to_proto
from rainbow_sched.protocol.messages import (
    AllowedHosts,
    AttemptRef,
    BidAnswer,
    BidRequest,
    Offer,
    Report,
    SyncMessage,
    SyncRequest,
)
from tests.support.backends import a_request as a_job
from tests.support.service import a_request
from tests.unit.agent.core.test_reactor import REF, Story
from tests.unit.agent.runtime.test_loop import Desk, Site

HOSTS = (GroupHosts(0, ("n1", "n2", "n7")), GroupHosts(2, ("m1",)))
OFFER = Offer(ref=REF, owner="user:ana", spec=to_json(a_request()), allowed=AllowedHosts(HOSTS, checked=True))
RETURNED = Result(state=AttemptState.RETURNED, reason="elsewhere", code=WRONG_NODES)


def received(*hosts: tuple[int, str], checked: bool = False) -> Offer:
    listed = [agents_pb2.GroupHosts(group=group, hosts=text) for group, text in hosts]
    answer = agents_pb2.SyncResponse(offers=[agents_pb2.Offer(spec="{}", hosts=listed, hosts_checked=checked)])
    return answer_from_proto(answer).offers[0]


def test_an_offer_brings_its_hosts_and_whether_they_were_checked():
    assert received((0, "n[1-2,7]"), (2, "m1"), checked=True).allowed == AllowedHosts(HOSTS, checked=True)
    assert received(checked=True).allowed == AllowedHosts(checked=True)
    assert received().allowed == AllowedHosts(checked=False)  # an older server
    assert received((0, "n1")).allowed.checked
    assert OFFER.allowed.of(2) == ("m1",)
    assert OFFER.allowed.of(1) == ()


def test_a_bid_request_brings_them_too():
    asked = agents_pb2.BidRequest(
        id="b", spec="{}", hosts=[agents_pb2.GroupHosts(group=0, hosts="n[1-2]")], hosts_checked=True
    )
    request = answer_from_proto(agents_pb2.SyncResponse(bid_requests=[asked])).bid_requests[0]
    assert request.allowed == AllowedHosts((GroupHosts(0, ("n1", "n2")),), checked=True)


@pytest.mark.parametrize("text", ["", "n[1-", "n[3-1]"])
async def test_hosts_that_cannot_be_read_refuse_that_one_offer_and_no_other(text: str):
    offer = received((0, text), checked=True)
    judged = await errands(Taking()).run(e.CheckOffer(Offer(ref=REF, spec=OFFER.spec, unreadable=offer.unreadable)))
    assert isinstance(judged, e.OfferChecked)
    assert "cannot read on which hosts" in (judged.reason or "")
    asked = agents_pb2.BidRequest(id="b", spec=OFFER.spec, hosts=[agents_pb2.GroupHosts(group=0, hosts=text)])
    ready = await errands(Taking()).run(
        e.AskBid(answer_from_proto(agents_pb2.SyncResponse(bid_requests=[asked])).bid_requests[0])
    )
    assert isinstance(ready, e.BidReady)
    assert not ready.answer.yes


def test_what_the_manager_can_be_told_is_announced():
    rules = NodeRules(hosts=True, subsystems=frozenset({"partitions", "features"}), groups=True)
    request = SyncRequest(message=SyncMessage(seq=1), cluster="east", epoch="e.1", node_rules=rules)
    said = request_to_proto(request).node_rules
    assert (said.hosts, list(said.subsystems), said.groups) == (True, ["features", "partitions"], True)


def test_a_journal_keeps_the_hosts_and_those_of_older_agents_are_read():
    held = {REF: LocalAttempt(offer=OFFER, phase=Phase.ACCEPTED)}
    records, _ = parse(b"".join(map(line, compacted(held.values(), {}, ""))), "journal")
    assert restored(records) == (held, {})
    assert "n[1-2,7]" in str(records)  # in short
    older = offer_record(OFFER)
    del older["hosts_checked"], cast("dict[str, object]", older["offer"])["hosts"]
    end = {"kind": "end", "job": REF.job, "n": REF.n, "token": REF.token, "sizes": [0, 0]}
    result = {"state": "failed", "exit_code": 3, "failure": "exit", "reason": "", "started_at": None, "ended_at": 5.0}
    held, _ = restored([older, {**end, "result": result}])
    assert held[REF].offer.allowed == AllowedHosts()
    assert (held[REF].nodes, held[REF].result.code) == ("", "")


def report(story: Story, state: str) -> Report:
    """The report of a state, once the server has answered what was said before."""
    for _ in range(5):
        found = [one for sent in story.all(e.SendSync) for one in sent.message.reports if one.state == state]
        if found:
            return found[0]
        story.answer(server="one that knows `returned`")
    raise AssertionError(f"no report says {state}")


def test_the_nodes_are_reported_with_the_start_and_with_the_end():
    story = Story().submitted()
    story.tell(e.BackendUpdated((Update(tag=REF.tag, phase=Phase.RUNNING, native="n1", nodes="n[1-2]"),)))
    assert report(story, "running").nodes == "n[1-2]"
    end = Update(tag=REF.tag, phase=Phase.ENDED, native="n1", result=RETURNED)  # the manager has forgotten them
    story.tell(e.BackendUpdated((end,)))
    story.tell(e.RecordStored(REF, "end"))
    assert report(story, "returned").nodes == "n[1-2]"
    told = report(story, "returned")
    assert (told.reason, told.code) == (RETURNED.reason, WRONG_NODES)
    [written] = [command.record for command in story.all(e.WriteJournal) if command.kind == "end"]
    held, _ = restored([offer_record(OFFER), written])
    assert (held[REF].nodes, held[REF].result) == ("n[1-2]", RETURNED)


class Taking:
    """A driver that keeps what it is asked."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.asked: list[object] = []
        self._problem = problem

    async def check(self, request: object, allowed: AllowedHosts) -> str | None:
        self.asked.append(allowed)
        return None

    async def bid(self, request: object, allowed: AllowedHosts) -> BidAnswer:
        self.asked.append(allowed)
        return BidAnswer(yes=True)

    async def submit(self, launch: Any) -> str:
        self.asked.append(launch.allowed)
        if self._problem is not None:
            raise self._problem
        return "1"


def errands(backend: Taking) -> BackendCalls:
    return BackendCalls("here", cast("Backend", backend), SiteRules(), run_guard=1500.0)


async def test_the_backend_hears_of_the_hosts_whatever_it_is_asked():
    backend, offer = Taking(), replace(OFFER, allowed=AllowedHosts(HOSTS[:1], checked=True))
    await errands(backend).run(e.CheckOffer(offer))
    await errands(backend).run(e.Submit(offer))
    await errands(backend).run(e.AskBid(BidRequest("b", offer.spec, 1.0, offer.allowed)))
    assert backend.asked == [offer.allowed] * 3


async def test_hosts_for_groups_that_the_request_does_not_have_are_refused():
    backend = Taking()
    for hosts in (HOSTS, (HOSTS[0], HOSTS[0])):
        judged = await errands(backend).run(e.CheckOffer(replace(OFFER, allowed=AllowedHosts(hosts, checked=True))))
        assert isinstance(judged, e.OfferChecked)
        assert "but the request has 1" in (judged.reason or "")
        ready = await errands(backend).run(e.AskBid(BidRequest("b", OFFER.spec, 1.0, AllowedHosts(hosts))))
        assert isinstance(ready, e.BidReady)
        assert not ready.answer.yes
    assert backend.asked == []


async def test_a_job_that_cannot_be_bound_when_it_is_submitted_goes_back_and_has_not_failed():
    answer = await errands(Taking(CannotBind("n1 is gone"))).run(e.Submit(OFFER))
    assert answer == e.SubmitRefused(REF, Result(state=AttemptState.RETURNED, reason="n1 is gone"))


async def test_a_bound_job_runs_and_reports_its_host_through_the_whole_agent(tmp_path: Path):
    site = Site(tmp_path, Desk())
    spec = to_json(a_job("true"))
    there, elsewhere = AttemptRef(1, 1, "t1"), AttemptRef(2, 1, "t2")
    site.desk.offers = [
        Offer(ref=there, spec=spec, allowed=AllowedHosts((GroupHosts(0, ("n0",)),), checked=True)),
        Offer(ref=elsewhere, spec=spec, allowed=AllowedHosts((GroupHosts(0, ("x9",)),), checked=True)),
    ]
    await site.run()
    assert (site.desk.ends[there].state, site.desk.ends[there].nodes) == ("succeeded", "n0")
    assert "x9" in site.desk.rejects[elsewhere]
    assert "n0" in site.desk.rejects[elsewhere]

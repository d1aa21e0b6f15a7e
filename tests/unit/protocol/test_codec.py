"""Messages of agent and server on the wire: nothing is dropped, nothing raises, and one bad item blocks no other."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.model.binding import GroupHosts, NodeRules
from rainbow_sched.model.errors import Invalid
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.codec import (
    MAX_RECALL_ATTEMPTS,
    MAX_RULE_CHARS,
    MAX_SUBSYSTEMS,
    answer_from_proto,
    answer_to_proto,
    request_from_proto,
    request_to_proto,
)
from rainbow_sched.protocol.messages import (
    MAX_ENTRIES,
    AllowedHosts,
    AttemptRef,
    BidAnswer,
    BidRequest,
    KnownAttempt,
    Offer,
    OutputPiece,
    Recall,
    RecalledOffer,
    Report,
    ReportedFacts,
    ServerCommand,
    SyncAnswer,
    SyncMessage,
    SyncRequest,
)
from tests.unit.protocol.generated import ANSWERS, FULL_ANSWERS, FULL_REQUESTS, REQUESTS, defaults_in

UNSHRUNK = settings(phases=[Phase.explicit, Phase.reuse, Phase.generate])  # shrinking whole messages takes minutes
REF, OTHER = AttemptRef(7, 1, "fence-7"), AttemptRef(8, 2, "fence-8")
TEXTS = st.text(st.characters(), max_size=5)  # halves of surrogate pairs among them
NUMBERS = st.one_of(st.none(), st.floats())
RECORDED_REQUEST = b64decode(  # as version 4292f3f sends it
    "CgRlYXN0EgNqLjEYBSIYCg0IBxABGgdmZW5jZS03EgdydW5uaW5nKkwKDQgHEAEaB2ZlbmNlLTcSBmZhaWxlZBgDIgRleGl0Kgtl"
    "eGl0IGNvZGUgMzIENDcxMTkAAAAAAAAkQEEAAAAAAIA0QEoGblsxLTJdKisKDQgIEAIaB2ZlbmNlLTgSB3J1bm5pbmcyBDQ3MTI5"
    "AAAAAAAAKEBKAm4zMg0ICBACGgdmZW5jZS04OhgKDQgHEAEaB2ZlbmNlLTcSB25vdCBub3dCAgMESjMKAmIxEAEhAAAAAAAA8D8p"
    "AAAAAAAAAEAxAAAAAAAA+D85AAAAAAAA0D9BAAAAAAAAIkBQA1oJY29yZXMgPCA0Yh0KDQgHEAEaB2ZlbmNlLTcSBnN0ZG91dBgK"
    "IgL/AGoFc2x1cm1yAzAuOXkAAAAAAAA0QIIBEXsibm9kZXNfZnJlZSI6IDN9igEKCgJuMRIEZG93bpIBBgoCdjEQApgBAaABAaoB"
    "BWNvcmVzsgEhCAESCGZlYXR1cmVzEgpwYXJ0aXRpb25zGAEiA3doeSgBugEKMi5hLjkuc2VhbMABAcoBogEKVgoNCAcQARoHZmVu"
    "Y2UtNxIFZW5kZWQaPgoNCAcQARoHZmVuY2UtNxIGZmFpbGVkGAMiBGV4aXQqC2V4aXQgY29kZSAzOQAAAAAAACRAQQAAAAAAgDRA"
    "CkYKDQgIEAIaB2ZlbmNlLTgSCWNvbmZpcm1lZCIqCg0ICBACGgdmZW5jZS04EgFuGgNhbmEiAnt9Kg17ImxhYmVscyI6e319EAE="
)
RECORDED_ANSWER = b64decode(  # as version 4292f3f sends it, with another text of the second command
    "CAUSDQgHEAEaB2ZlbmNlLTcaNgoNCAgQAhoHZmVuY2UtOBIBbhoDYW5hIgJ7fSoCe30xAAAAAAAATkA4BFIIEgZuWzEtMl1YASIZ"
    "CAMSBmNhbmNlbBoNCAcQARoHZmVuY2UtNyI6EgRraWxsGg0ICBACGgdmZW5jZS04IiN0aGUgc2VydmVyIGRvZXMgbm90IGtub3cg"
    "aXQgYXMgbGl2ZSodCgJiMRICe30ZAAAAAAAAEEAiCBIGblsxLTJdKAExAAAAAAAAOUA4AUINCAgQAhoHZmVuY2UtOEoNCAcQARoH"
    "ZmVuY2UtN1IZCg0IBxABGgdmZW5jZS03EgZzdGRvdXQYDFgBeg0ICBACGgdmZW5jZS04ggEHMS4wLWFiY4oBCjIuYS45LnNlYWyQ"
    "AQE="
)
END = Report(
    ref=REF,
    state=AttemptState.FAILED,
    exit_code=3,
    failure=Failure.EXIT,
    reason="exit code 3",
    started_at=10.0,
    ended_at=20.5,
)
REQUEST = SyncRequest(
    message=SyncMessage(
        seq=5,
        held=((REF, "running"),),
        reports=(
            replace(END, native_id="4711", nodes="n[1-2]"),
            Report(ref=OTHER, state=AttemptState.RUNNING, native_id="4712", started_at=12.0, nodes="n3"),
        ),
        accepts=(OTHER,),
        rejects=((REF, "not now"),),
        acks=(3, 4),
        bids=(("b1", BidAnswer(yes=True, start_p50=1.0, start_p90=2.0, runtime_factor=1.5, cost=0.25, valid_for=9.0)),),
        output=(OutputPiece(REF, "stdout", 10, b"\xff\x00"),),
        want=3,
        wait=20.0,
        facts=ReportedFacts(state={"nodes_free": 3}, marks={"n1": "down"}, used={"v1": 2}),
        mark="2.a.9.seal",
        recall=Recall(
            complete=True,
            attempts=(
                KnownAttempt(ref=REF, phase="ended", report=END),
                KnownAttempt(
                    ref=OTHER,
                    phase="confirmed",
                    offer=RecalledOffer(name="n", owner="ana", spec="{}", terms='{"labels":{}}'),
                ),
            ),
        ),
    ),
    cluster="east",
    epoch="j.1",
    manager="slurm",
    version="0.9",
    accept_only="cores < 4",
    order_by="cores",
    guards=True,
    node_rules=NodeRules(True, frozenset({"features", "partitions"}), True, "why", True),
    recalls=True,
)
HOSTS = (GroupHosts(0, ("n1", "n2")),)
ANSWER = SyncAnswer(
    ack=5,
    confirms=(REF,),
    offers=(
        Offer(
            ref=OTHER,
            name="n",
            owner="ana",
            spec="{}",
            lease=60.0,
            priority=4,
            allowed=AllowedHosts(HOSTS, checked=True),
        ),
    ),
    commands=(
        ServerCommand(3, "cancel", REF),
        ServerCommand(0, "kill", OTHER, "the server does not know it as live"),
    ),
    bid_requests=(BidRequest("b1", "{}", 4.0, AllowedHosts(HOSTS, checked=True)),),
    heartbeat=25.0,
    resync=True,
    expected=(OTHER,),
    acked=(REF,),
    output_acks=((REF, "stdout", 12),),
    unknown=(OTHER,),
    renew=True,
    server="1.0-abc",
    mark="2.a.9.seal",
    recall=True,
)


def request_of(message: SyncMessage) -> SyncRequest:
    return SyncRequest(message=message, cluster="east", epoch="j.1")


def received(request: SyncRequest) -> SyncRequest:
    """The request as the server reads it from its bytes."""
    return request_from_proto(agents_pb2.SyncRequest.FromString(request_to_proto(request).SerializeToString()))


def answered(answer: SyncAnswer) -> SyncAnswer:
    """The answer as the agent reads it from its bytes."""
    return answer_from_proto(agents_pb2.SyncResponse.FromString(answer_to_proto(answer).SerializeToString()))


# --- nothing is dropped ---


@UNSHRUNK
@given(REQUESTS)
def test_every_request_arrives_as_it_was_sent(request: SyncRequest) -> None:
    assert received(request) == request


@UNSHRUNK
@given(ANSWERS)
def test_every_answer_arrives_as_it_was_sent(answer: SyncAnswer) -> None:
    assert answered(answer) == answer


@UNSHRUNK
@given(FULL_REQUESTS)
def test_a_request_arrives_with_every_field_of_every_part(request: SyncRequest) -> None:
    assert defaults_in(request) == []
    assert received(request) == request


@UNSHRUNK
@given(FULL_ANSWERS)
def test_an_answer_arrives_with_every_field_of_every_part(answer: SyncAnswer) -> None:
    assert defaults_in(answer) == []
    assert answered(answer) == answer


# --- other versions ---


def test_the_bytes_are_those_of_earlier_versions() -> None:
    assert request_to_proto(REQUEST).SerializeToString(deterministic=True) == RECORDED_REQUEST
    assert answer_to_proto(ANSWER).SerializeToString(deterministic=True) == RECORDED_ANSWER
    assert request_from_proto(agents_pb2.SyncRequest.FromString(RECORDED_REQUEST)) == REQUEST
    assert answer_from_proto(agents_pb2.SyncResponse.FromString(RECORDED_ANSWER)) == ANSWER


def test_an_agent_without_the_newer_fields_is_read() -> None:
    raw = agents_pb2.SyncRequest.FromString(RECORDED_REQUEST)
    for name in ("order_by", "node_rules", "mark", "recalls", "recall", "guards", "has_used", "used"):
        raw.ClearField(name)
    for report in raw.reports:
        report.ClearField("nodes")
        report.ClearField("code")
    read = request_from_proto(raw)
    assert (read.order_by, read.node_rules, read.recalls, read.guards) == ("", None, False, False)
    assert (read.message.mark, read.message.recall) == ("", None)
    assert read.message.facts == ReportedFacts(state={"nodes_free": 3}, marks={"n1": "down"}, used=None)
    assert [report.nodes for report in read.message.reports] == ["", ""]


def test_a_server_without_the_newer_fields_is_read() -> None:
    raw = agents_pb2.SyncResponse.FromString(RECORDED_ANSWER)
    for name in ("renew", "unknown_reports", "server", "mark", "recall", "heartbeat"):
        raw.ClearField(name)
    for part in (*raw.offers, *raw.bid_requests):
        part.ClearField("hosts")
        part.ClearField("hosts_checked")
    read = answer_from_proto(raw)
    assert (read.server, read.mark, read.recall, read.unknown, read.renew) == ("", "", False, (), False)
    assert read.heartbeat == 25.0
    assert read.offers[0].allowed == read.bid_requests[0].allowed == AllowedHosts()


def test_fields_of_a_newer_version_are_ignored() -> None:
    unknown = b"\xfa\x3e\x03new"  # field 1007, a text
    assert request_from_proto(agents_pb2.SyncRequest.FromString(RECORDED_REQUEST + unknown)) == REQUEST
    assert answer_from_proto(agents_pb2.SyncResponse.FromString(RECORDED_ANSWER + unknown)) == ANSWER


# --- values that cannot be sent ---


@given(
    report=st.builds(
        Report,
        ref=st.just(REF),
        state=st.sampled_from(AttemptState),
        exit_code=st.one_of(st.none(), st.integers()),
        failure=st.one_of(st.none(), st.sampled_from(Failure)),
        reason=TEXTS,
        native_id=TEXTS,
        started_at=NUMBERS,
        ended_at=NUMBERS,
        nodes=TEXTS,
    )
)
def test_every_report_that_the_types_allow_can_be_sent_and_read(report: Report) -> None:
    read = received(request_of(SyncMessage(seq=1, reports=(report,), rejects=((REF, report.reason),)))).message
    assert len(read.reports) + len(read.unknown) == 1
    if report.exit_code is not None and not 0 <= report.exit_code <= 255:
        assert len(read.unknown) == 1, "a number out of range is never taken for another number"


def test_values_that_cannot_be_sent_are_left_out_of_the_state_and_the_others_are_sent() -> None:
    state = {"good": 1, "nan": math.nan, "inf": [math.inf], "odd": object(), "half": "\ud800"}
    facts = ReportedFacts(state=state, marks={"n\udcff": "up"}, used={"a": 1, "b": -1, "c": 2**70})
    sent = request_to_proto(request_of(SyncMessage(seq=1, facts=facts)))
    assert json.loads(sent.state) == {"good": 1, "half": "\ud800"}
    assert dict(sent.used) == {"a": 1}


def test_bids_and_output_with_odd_values_are_sent() -> None:
    bid = BidAnswer(yes=True, reason="\udcff", start_p50=math.nan, cost=math.inf, valid_for=-1.0)
    read = received(
        request_of(SyncMessage(seq=1, bids=(("b1", bid),), output=(OutputPiece(REF, "stdout", 2**62, b"x"),)))
    )
    [(_, answer)] = read.message.bids
    assert answer.start_p50 is not None
    assert math.isnan(answer.start_p50)
    assert answer.cost == math.inf


# --- values that cannot be read ---


def test_texts_of_an_agent_can_be_stored() -> None:
    """PostgreSQL refuses NUL."""
    raw = agents_pb2.SyncRequest(cluster="east", manager="a\0b", rejects=[agents_pb2.Reject(reason="c\0d")])
    raw.reports.add(state="running", native_id="\0")
    raw.recall.attempts.add(phase="confirmed").offer.name = "e\0"
    read = request_from_proto(raw)
    assert "\0" not in repr(read).replace("\\x00", "\0")


@pytest.mark.parametrize("text", ["", "[", "7", '"x"', "[" * 90_000, '{"a": ' + "1" * 300_000 + "}"])
def test_a_state_that_cannot_be_read_is_no_report(text: str) -> None:
    assert request_from_proto(agents_pb2.SyncRequest(state=text)).message.facts is None


def test_values_of_a_state_that_cannot_be_stored_are_left_out() -> None:
    raw = agents_pb2.SyncRequest(state='{"good": 1, "deep": {"a": 1}, "huge": 1e999, "": 2, "nan": NaN}')
    assert request_from_proto(raw).message.facts == ReportedFacts(state={"good": 1})


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0, 0.0, 1e300])
def test_times_of_the_server_that_are_no_times_are_replaced_by_the_defaults(number: float) -> None:
    answer = agents_pb2.SyncResponse(
        heartbeat=number,
        offers=[agents_pb2.Offer(attempt=agents_pb2.AttemptRef(job=1), lease=number)],
        bid_requests=[agents_pb2.BidRequest(id="b", deadline=number)],
    )
    read = answer_from_proto(answer)
    assert (read.heartbeat, read.offers[0].lease, read.bid_requests[0].deadline) == (25.0, 60.0, 0.0)


@pytest.mark.parametrize("terms", ["", "[", "7", '"x"', "[" * 90_000, '{"lost_after": -1}', '{"lost_after": "x"}'])
def test_terms_that_make_no_sense_do_not_break_the_guard(terms: str) -> None:
    [offer] = answer_from_proto(agents_pb2.SyncResponse(offers=[agents_pb2.Offer(terms=terms)])).offers
    assert offer.guard(10.0) is None


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", "-Infinity", "0"])
def test_a_time_that_is_none_does_not_break_the_guard(number: str) -> None:
    terms = f'{{"lost_after": {number}, "delivery": "at-least-once"}}'
    [offer] = answer_from_proto(agents_pb2.SyncResponse(offers=[agents_pb2.Offer(terms=terms)])).offers
    assert offer.guard(10.0) == 10.0


@pytest.mark.parametrize("hosts", ["", "n[1-", "n[3-1]"])
def test_hosts_that_cannot_be_read_are_told_and_stop_no_other_offer(hosts: str) -> None:
    raw = answer_to_proto(ANSWER)
    raw.offers.add(hosts=[agents_pb2.GroupHosts(group=0, hosts=hosts)], hosts_checked=True)
    raw.bid_requests.add(hosts=[agents_pb2.GroupHosts(group=0, hosts=hosts)])
    read = answer_from_proto(raw)
    assert read.offers[0] == ANSWER.offers[0]
    assert "cannot read on which hosts" in read.offers[1].unreadable
    assert "cannot read on which hosts" in read.bid_requests[1].unreadable


# --- limits ---


def test_a_server_reads_a_message_that_names_more_held_jobs_than_it_looks_at() -> None:
    held = tuple((AttemptRef(i, 1, "t"), "running") for i in range(MAX_ENTRIES))
    reports = tuple(Report(ref=AttemptRef(i, 1, "t"), state=AttemptState.RUNNING) for i in range(10))
    read = received(request_of(SyncMessage(seq=1, held=held, reports=reports))).message
    assert (len(read.reports), len(read.held)) == (10, MAX_ENTRIES - 10)


def test_too_many_entries_are_refused() -> None:
    refs = tuple(AttemptRef(i, 1, "t") for i in range(MAX_ENTRIES))
    received(request_of(SyncMessage(seq=1, accepts=refs)))
    with pytest.raises(Invalid, match="20000 entries"):
        received(request_of(SyncMessage(seq=1, accepts=refs, rejects=((REF, ""),))))
    known = (KnownAttempt(ref=REF, phase="never"),) * (MAX_RECALL_ATTEMPTS + 1)
    with pytest.raises(Invalid, match="100000 attempts"):
        received(request_of(SyncMessage(seq=1, recall=Recall(attempts=known, complete=True))))


def announced(*subsystems: str) -> NodeRules | None:
    rules = agents_pb2.NodeRules(hosts=True, subsystems=subsystems, groups=True)
    return request_from_proto(agents_pb2.SyncRequest(node_rules=rules)).node_rules


def test_an_agent_that_announces_nothing_is_told_from_one_that_announces_no_words() -> None:
    assert request_from_proto(agents_pb2.SyncRequest()).node_rules is None
    assert announced() == NodeRules(hosts=True, groups=True)
    assert announced("gpu", "partition") == NodeRules(True, frozenset({"gpu", "partition"}), True)


def test_too_many_words_cost_no_sync() -> None:
    found = announced(*(f"s{number}" for number in range(1_000)), "x" * 100_000)
    assert found is not None
    assert len(found.subsystems) == MAX_SUBSYSTEMS


def test_why_a_manager_takes_one_group_is_read_as_one_short_line() -> None:
    rules = agents_pb2.NodeRules(hosts=True, merges=True, one_group="because\n  of " + "x" * 10_000)
    found = request_from_proto(agents_pb2.SyncRequest(node_rules=rules)).node_rules
    assert found is not None
    assert found.one_group.startswith("because of x")
    assert len(found.one_group) <= MAX_RULE_CHARS
    assert found.merges
    assert NodeRules.of(found.to_json()) == found
    assert NodeRules.of({"hosts": True, "subsystems": [], "groups": False}) == NodeRules(hosts=True)  # of older servers

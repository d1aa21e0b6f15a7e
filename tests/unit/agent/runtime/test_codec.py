"""Between the reactor and protobuf: whatever a backend or a server says, nothing raises, and the rest gets through."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rainbow_sched.agent.core.events import Report, SyncMessage
from rainbow_sched.agent.core.values import BidAnswer, Chunk, ClusterFacts, Ref, Result
from rainbow_sched.agent.runtime.codec import sync_answer, sync_request
from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.server.handlers.agents import MAX_SYNC_ENTRIES, sync_in

REF = Ref(7, 1, "token")
TEXTS = st.text(st.characters(), max_size=5)  # halves of surrogate pairs among them
NUMBERS = st.one_of(st.none(), st.floats())
RESULTS = st.builds(
    Result,
    state=st.sampled_from(AttemptState),
    exit_code=st.one_of(st.none(), st.integers()),
    failure=st.one_of(st.none(), st.sampled_from(Failure)),
    reason=TEXTS,
    started_at=NUMBERS,
    ended_at=NUMBERS,
)


@given(result=RESULTS, native=TEXTS)
def test_every_result_that_the_types_allow_can_be_sent_and_read(result: Result, native: str) -> None:
    report = Report(ref=REF, state=result.state.value, native=native, result=result)
    sent = sync_request(SyncMessage(seq=1, reports=(report,), rejects=((REF, native),)))
    read = sync_in(agents_pb2.SyncRequest.FromString(sent.SerializeToString()))
    assert len(read.reports) + len(read.unknown) == 1
    if result.exit_code is not None and not 0 <= result.exit_code <= 255:
        assert len(read.unknown) == 1, "a number out of range is never taken for another number"


def test_values_that_cannot_be_sent_are_left_out_of_the_state_and_the_others_are_sent() -> None:
    state = {"good": 1, "nan": math.nan, "inf": [math.inf], "odd": object(), "half": "\ud800"}
    facts = ClusterFacts(manager="m", state=state, marks={"n\udcff": "up"}, used={"a": 1, "b": -1, "c": 2**70})
    sent = sync_request(SyncMessage(seq=1, facts=facts))
    assert json.loads(sent.state) == {"good": 1, "half": "\ud800"}
    assert dict(sent.used) == {"a": 1}


def test_bids_and_output_with_odd_values_are_sent() -> None:
    bid = BidAnswer(yes=True, reason="\udcff", start_p50=math.nan, cost=math.inf, valid_for=-1.0)
    sent = sync_request(SyncMessage(seq=1, bids=(("b1", bid),), output=(Chunk(REF, "stdout", 2**62, b"x"),)))
    assert math.isnan(sent.bids[0].start_p50)


@pytest.mark.parametrize("number", [math.nan, math.inf, -1.0, 0.0, 1e300])
def test_times_of_the_server_that_are_no_times_are_replaced_by_the_defaults(number: float) -> None:
    answer = agents_pb2.SyncResponse(
        heartbeat=number,
        offers=[agents_pb2.Offer(attempt=agents_pb2.AttemptRef(job=1), lease=number)],
        bid_requests=[agents_pb2.BidRequest(id="b", deadline=number)],
    )
    read = sync_answer(answer)
    assert (read.heartbeat, read.offers[0].lease, read.bid_requests[0].deadline) == (25.0, 60.0, 0.0)


@pytest.mark.parametrize("terms", ["", "[", "7", '"x"', "[" * 90_000, '{"lost_after": -1}', '{"lost_after": "x"}'])
def test_terms_that_make_no_sense_do_not_break_the_guard(terms: str) -> None:
    [offer] = sync_answer(agents_pb2.SyncResponse(offers=[agents_pb2.Offer(terms=terms)])).offers
    assert offer.guard(10.0) is None


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", "NaN", "-Infinity", "0"])
def test_a_time_that_is_none_does_not_break_the_guard(number: str) -> None:
    terms = f'{{"lost_after": {number}, "delivery": "at-least-once"}}'
    [offer] = sync_answer(agents_pb2.SyncResponse(offers=[agents_pb2.Offer(terms=terms)])).offers
    assert offer.guard(10.0) == 10.0


def test_a_server_reads_a_message_that_names_more_held_jobs_than_it_looks_at() -> None:
    held = [
        agents_pb2.Held(attempt=agents_pb2.AttemptRef(job=i, n=1, token="t"), state="running")
        for i in range(MAX_SYNC_ENTRIES)
    ]
    reports = [
        agents_pb2.Report(attempt=agents_pb2.AttemptRef(job=i, n=1, token="t"), state="running") for i in range(10)
    ]
    read = sync_in(agents_pb2.SyncRequest(held=held, reports=reports))
    assert (len(read.reports), len(read.held)) == (10, MAX_SYNC_ENTRIES - 10)

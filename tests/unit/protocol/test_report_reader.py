"""Every report is either understood or kept as text, by rules that are spelt out here for all combinations."""

from __future__ import annotations

import itertools
import json

import pytest

from rainbow_sched.model.attempt import AttemptState, Failure
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.messages import AttemptRef, Report, UnknownReport
from rainbow_sched.protocol.report_reader import MAX_REASON_CHARS, REPORTED, read_report

RUNS = {"submitted", "running", "finishing"}
ENDS = {"failed", "cancelled", "preempted"}
STATES = [*(state.value for state in AttemptState), "molten", ""]
FAILURES = [*(failure.value for failure in Failure), "bad luck", ""]
CODES = [None, -1, 0, 1, 255, 256, 2**31 - 1]


def is_understood(state: str, failure: str, code: int | None) -> bool:
    """The rules, one after the other."""
    if state in RUNS:
        return code is None and not failure
    if failure in ("lost", "bad luck") or code not in (None, 0, 1, 255):
        return False
    if state == "succeeded":
        return code in (None, 0) and not failure
    if state == "returned":
        return code is None and failure in ("", "launch", "refused")
    return state in ENDS


def test_a_report_is_understood_by_the_rules_and_otherwise_kept() -> None:
    for state, failure, code in itertools.product(STATES, FAILURES, CODES):
        raw = agents_pb2.Report(attempt=agents_pb2.AttemptRef(job=7, n=1, token="t"), state=state, failure=failure)
        if code is not None:
            raw.exit_code = code
        read = read_report(raw)
        assert read.ref == AttemptRef(7, 1, "t")
        if is_understood(state, failure, code):
            assert isinstance(read, Report)
            assert (read.state, read.failure or "", read.exit_code) == (state, failure, code)
        else:
            assert isinstance(read, UnknownReport), (state, failure, code)
            assert read.why
            kept = json.loads(read.text)
            assert (kept.get("state", ""), kept.get("failure", ""), kept.get("exit_code")) == (state, failure, code)


def test_a_server_that_knows_fewer_states_keeps_the_others_as_text() -> None:
    raw = agents_pb2.Report(state="returned")
    assert isinstance(read_report(raw), Report)
    assert isinstance(read_report(raw, REPORTED - {AttemptState.RETURNED}), UnknownReport)


@pytest.mark.parametrize("number", [-1.0, 1e300, float("inf"), float("nan")])
def test_a_time_that_is_none_is_not_known(number: float) -> None:
    read = read_report(agents_pb2.Report(state="failed", started_at=number, ended_at=number))
    assert isinstance(read, Report)
    assert (read.started_at, read.ended_at) == (None, None)


def test_the_kept_text_is_bounded_and_json_whatever_it_says() -> None:
    raw = agents_pb2.Report(state="x" * 10_000, reason="y" * 10_000, nodes="z" * 10_000, started_at=float("inf"))
    read = read_report(raw)
    assert isinstance(read, UnknownReport)
    assert len(read.text) < 4 * MAX_REASON_CHARS
    assert json.loads(read.text)["started_at"] == "inf"

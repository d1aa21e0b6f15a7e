"""Read an agent's report: return a `Report`, or an `UnknownReport` that keeps the text. Pure.

A report is never refused, because that would refuse the whole Sync message.
"""

from __future__ import annotations

import json

from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.model.job import END_OF_TIME
from rainbow_sched.pb.v2 import agents_pb2
from rainbow_sched.protocol.messages import AttemptRef, Report, UnknownReport

S = AttemptState
REPORTED = frozenset(  # only the server sets other states
    {S.SUBMITTED, S.RUNNING, S.FINISHING, S.SUCCEEDED, S.FAILED, S.CANCELLED, S.PREEMPTED, S.RETURNED}
)
EXIT_CODES = range(256)
MAX_WORD_CHARS = 256  # stored of each short field of a report that this server does not understand
MAX_REASON_CHARS = 1_024  # stored of the reason and the nodes in such a report
_NOT_RUN_FAILURES = frozenset({"", Failure.LAUNCH, Failure.REFUSED})


def read_report(raw: agents_pb2.Report, states: frozenset[AttemptState] = REPORTED) -> Report | UnknownReport:
    """Return the report, parsed if possible; `states` are those that this server accepts."""
    ref = AttemptRef(raw.attempt.job, raw.attempt.n, raw.attempt.token)
    why = _why_unknown(raw, states)
    if why is not None:
        return UnknownReport(ref=ref, text=_text(raw), why=why)
    return Report(
        ref=ref,
        state=AttemptState(raw.state),
        exit_code=raw.exit_code if raw.HasField("exit_code") else None,
        failure=Failure(raw.failure) if raw.failure else None,
        reason=storable(raw.reason),
        native_id=storable(raw.native_id),
        started_at=_valid_time(raw.started_at) if raw.HasField("started_at") else None,
        ended_at=_valid_time(raw.ended_at) if raw.HasField("ended_at") else None,
        nodes=storable(raw.nodes),
        code=storable(raw.code),
    )


def _why_unknown(raw: agents_pb2.Report, states: frozenset[AttemptState]) -> str | None:
    """Return why a report cannot be applied; None if it can."""
    if raw.state not in states:
        return f"the state {raw.state[:40]!r} is unknown to this server"
    if raw.failure and (raw.failure not in tuple(Failure) or raw.failure == Failure.LOST):
        return f"the failure {raw.failure[:40]!r} is unknown to this server"
    has_code = raw.HasField("exit_code")
    if has_code and raw.exit_code not in EXIT_CODES:
        return f"the exit code {raw.exit_code} is not between 0 and {EXIT_CODES[-1]}"
    state = AttemptState(raw.state)
    if state in LIVE and (has_code or raw.failure):
        return f"a job that is {state.value} has neither an exit code nor a failure"
    if state is AttemptState.SUCCEEDED and (raw.exit_code or raw.failure):
        return "a job that succeeded has no failure, and no exit code other than 0"
    if state is AttemptState.RETURNED and (has_code or raw.failure not in _NOT_RUN_FAILURES):
        return "a job that was returned never ran, so it has no exit code and no failure of a run"
    return None


def _text(raw: agents_pb2.Report) -> str:
    """Return the whole report as JSON."""
    values: dict[str, object] = {
        "state": raw.state[:MAX_WORD_CHARS],
        "exit_code": raw.exit_code if raw.HasField("exit_code") else None,
        "failure": raw.failure[:MAX_WORD_CHARS],
        "reason": raw.reason[:MAX_REASON_CHARS],
        "native_id": raw.native_id[:MAX_WORD_CHARS],
        "started_at": repr(raw.started_at) if raw.HasField("started_at") else None,  # may be infinite
        "ended_at": repr(raw.ended_at) if raw.HasField("ended_at") else None,
        "nodes": raw.nodes[:MAX_REASON_CHARS],
        "code": raw.code[:MAX_WORD_CHARS],
    }
    return json.dumps({key: value for key, value in values.items() if value not in (None, "")})


def _valid_time(value: float) -> float | None:
    """Return a reported time, or None if it is out of range."""
    return value if 0 <= value < END_OF_TIME else None


def storable(text: str) -> str:
    """Return the text without NUL, which databases refuse."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")

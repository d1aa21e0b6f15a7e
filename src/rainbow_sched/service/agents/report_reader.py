"""Read an agent's report: return an `AttemptReport`, or an `UnknownReport` that keeps the text. Pure.

A report is never refused, because that would refuse the whole Sync message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.model.job import END_OF_TIME
from rainbow_sched.service.agents.sync_messages import AttemptRef, AttemptReport, UnknownReport

REPORTED = frozenset(  # only the server sets other states
    {
        AttemptState.SUBMITTED,
        AttemptState.RUNNING,
        AttemptState.FINISHING,
        AttemptState.SUCCEEDED,
        AttemptState.FAILED,
        AttemptState.CANCELLED,
        AttemptState.PREEMPTED,
        AttemptState.RETURNED,
    }
)
EXIT_CODES = range(256)
MAX_WORD_CHARS, MAX_REASON_CHARS = 256, 1_024
_NOT_RUN_FAILURES = frozenset({"", Failure.LAUNCH, Failure.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReport:
    """A report as it was sent, unchecked."""

    ref: AttemptRef
    state: str
    exit_code: int | None = None
    failure: str = ""
    reason: str = ""
    native_id: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    nodes: str = ""
    code: str = ""

    def text(self) -> str:
        """Return the whole report as JSON."""
        values: Mapping[str, object] = {
            "state": self.state[:MAX_WORD_CHARS],
            "exit_code": self.exit_code,
            "failure": self.failure[:MAX_WORD_CHARS],
            "reason": self.reason[:MAX_REASON_CHARS],
            "native_id": self.native_id[:MAX_WORD_CHARS],
            "started_at": None if self.started_at is None else repr(self.started_at),  # may be infinite
            "ended_at": None if self.ended_at is None else repr(self.ended_at),
            "nodes": self.nodes[:MAX_REASON_CHARS],
            "code": self.code[:MAX_WORD_CHARS],
        }
        return json.dumps({key: value for key, value in values.items() if value not in (None, "")})


def read_report(raw: RawReport, states: frozenset[AttemptState] = REPORTED) -> AttemptReport | UnknownReport:
    """Return the report, parsed if possible; `states` are those that this server accepts."""
    why = _why_unknown(raw, states)
    if why is not None:
        return UnknownReport(ref=raw.ref, text=raw.text(), why=why)
    return AttemptReport(
        ref=raw.ref,
        state=AttemptState(raw.state),
        exit_code=raw.exit_code,
        failure=Failure(raw.failure) if raw.failure else None,
        reason=storable(raw.reason),
        native_id=storable(raw.native_id),
        started_at=_valid_time(raw.started_at),
        ended_at=_valid_time(raw.ended_at),
        nodes=storable(raw.nodes),
        code=storable(raw.code),
    )


def _why_unknown(raw: RawReport, states: frozenset[AttemptState]) -> str | None:
    """Return why a report cannot be applied; None if it can."""
    if raw.state not in states:
        return f"the state {raw.state[:40]!r} is unknown to this server"
    if raw.failure and (raw.failure not in tuple(Failure) or raw.failure == Failure.LOST):
        return f"the failure {raw.failure[:40]!r} is unknown to this server"
    if raw.exit_code is not None and raw.exit_code not in EXIT_CODES:
        return f"the exit code {raw.exit_code} is not between 0 and {EXIT_CODES[-1]}"
    state, ended_itself = AttemptState(raw.state), raw.exit_code is not None or bool(raw.failure)
    if state in LIVE and ended_itself:
        return f"a job that is {state.value} has neither an exit code nor a failure"
    if state is AttemptState.SUCCEEDED and (raw.exit_code or raw.failure):
        return "a job that succeeded has no failure, and no exit code other than 0"
    if state is AttemptState.RETURNED and (raw.exit_code is not None or raw.failure not in _NOT_RUN_FAILURES):
        return "a job that was returned never ran, so it has no exit code and no failure of a run"
    return None


def _valid_time(value: float | None) -> float | None:
    """Return a reported time, or None if it is out of range."""
    return value if value is not None and 0 <= value < END_OF_TIME else None


def storable(text: str) -> str:
    """Return the text without NUL, which databases refuse."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")

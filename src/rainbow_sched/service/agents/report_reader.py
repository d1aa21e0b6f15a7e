"""Read an agent's report: return an `AttemptReport`, or an `UnknownReport` that keeps the text. Pure.

A report is never refused, because the Sync that brings it also brings everything else that its cluster has to say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from rainbow_sched.model.attempt import LIVE, AttemptState, Failure
from rainbow_sched.model.job import END_OF_TIME
from rainbow_sched.service.agents.sync_messages import AttemptRef, AttemptReport, UnknownReport

REPORTED = frozenset(  # every other state is set by the server alone
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
MAX_WORD, MAX_REASON = 256, 1_024  # characters of a stored report's texts
_NEVER_RAN = frozenset({"", Failure.LAUNCH, Failure.REFUSED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReport:
    """A report as it was sent: words and numbers, not checked."""

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
        """The whole report as JSON."""
        values: Mapping[str, object] = {
            "state": self.state[:MAX_WORD],
            "exit_code": self.exit_code,
            "failure": self.failure[:MAX_WORD],
            "reason": self.reason[:MAX_REASON],
            "native_id": self.native_id[:MAX_WORD],
            "started_at": None if self.started_at is None else repr(self.started_at),  # it need not be finite
            "ended_at": None if self.ended_at is None else repr(self.ended_at),
            "nodes": self.nodes[:MAX_REASON],
            "code": self.code[:MAX_WORD],
        }
        return json.dumps({key: value for key, value in values.items() if value not in (None, "")})


def read_report(raw: RawReport, states: frozenset[AttemptState] = REPORTED) -> AttemptReport | UnknownReport:
    """The report if it can be understood; `states` are those that this server knows."""
    why = _not_understood(raw, states)
    if why is not None:
        return UnknownReport(ref=raw.ref, text=raw.text(), why=why)
    return AttemptReport(
        ref=raw.ref,
        state=AttemptState(raw.state),
        exit_code=raw.exit_code,
        failure=Failure(raw.failure) if raw.failure else None,
        reason=storable(raw.reason),
        native_id=storable(raw.native_id),
        started_at=_moment(raw.started_at),
        ended_at=_moment(raw.ended_at),
        nodes=storable(raw.nodes),
        code=storable(raw.code),
    )


def _not_understood(raw: RawReport, states: frozenset[AttemptState]) -> str | None:
    """Why a report cannot be acted upon; None if it can."""
    if raw.state not in states:
        return f"the state {raw.state[:40]!r} is not one that this server knows from agents"
    if raw.failure and (raw.failure not in tuple(Failure) or raw.failure == Failure.LOST):
        return f"the failure {raw.failure[:40]!r} is not one that this server knows from agents"
    if raw.exit_code is not None and raw.exit_code not in EXIT_CODES:
        return f"the exit code {raw.exit_code} is not between 0 and {EXIT_CODES[-1]}"
    state, ended_itself = AttemptState(raw.state), raw.exit_code is not None or bool(raw.failure)
    if state in LIVE and ended_itself:
        return f"a job that is {state.value} has neither an exit code nor a failure"
    if state is AttemptState.SUCCEEDED and (raw.exit_code or raw.failure):
        return "a job that succeeded has no failure, and no exit code other than 0"
    if state is AttemptState.RETURNED and (raw.exit_code is not None or raw.failure not in _NEVER_RAN):
        return "a job that was returned never ran, so it has no exit code and no failure of a run"
    return None


def _moment(value: float | None) -> float | None:
    """A time that an agent tells; one that no clock can show counts as not told."""
    return value if value is not None and 0 <= value < END_OF_TIME else None


def storable(text: str) -> str:
    """The text without the one character that databases refuse."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")

"""A registered cluster: its name, its standing, the state it reports."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, TooLarge

MAX_STATE_KEYS = 1_000
MAX_STATE_TEXT = 4_096
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")


class Standing(enum.StrEnum):
    """Whether a cluster takes work, and why not."""

    ACTIVE = "active"
    DRAINING = "draining"  # no new work; what runs, runs to its end
    DEGRADED = "degraded"  # its breaker tripped: too many failures in a row; one canary at a time
    UNREACHABLE = "unreachable"  # its agent is silent
    LEAVING = "leaving"  # no new work; removed when what runs has ended
    REMOVED = "removed"


def cluster_name(text: str) -> str:
    """`text` if it can be a cluster's name."""
    if not _NAME.fullmatch(text):
        raise Invalid(
            f"{text[:40]!r} cannot be a cluster's name: use 1 to 128 letters, digits, dots, dashes or underscores, "
            "beginning and ending with a letter or digit"
        )
    return text


def checked_state(values: Mapping[str, object]) -> dict[str, object]:
    """State keys and values as they may be stored: scalars and flat lists, finite numbers."""
    if len(values) > MAX_STATE_KEYS:
        raise TooLarge(f"a cluster reports at most {MAX_STATE_KEYS} state keys")
    for key, value in values.items():
        if not isinstance(key, str) or not 0 < len(key) <= 256:
            raise Invalid("a state key has 1 to 256 characters", where=f"state {str(key)[:40]!r}")
        _check_value(key, value)
    return dict(values)


def _check_value(key: str, value: object) -> None:
    where = f"state {key!r}"
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int | float):
        if not math.isfinite(value) or abs(value) > 2**63:
            raise Invalid("a number must be finite and below 2^63", where=where)
    elif isinstance(value, str):
        if len(value) > MAX_STATE_TEXT:
            raise TooLarge(f"a text has at most {MAX_STATE_TEXT} characters", where=where)
    elif isinstance(value, list) and len(value) <= MAX_STATE_KEYS:
        for item in value:
            if isinstance(item, list | dict):
                raise Invalid("a list in a state holds plain values only", where=where)
            _check_value(key, item)
    else:
        raise Invalid("a state value is a number, a text, true, false, null or a flat list of these", where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One place that runs jobs, as the store knows it. Its graphs are kept beside it."""

    id: int  # never reused: a name that is deleted and registered again is another cluster
    name: str
    standing: Standing = Standing.ACTIVE
    manager: str = ""  # local, slurm, flux; empty: no agent has told
    registered_at: float = 0.0
    seen_at: float | None = None  # last word from its agent or receiver
    state: Mapping[str, object] = field(default_factory=dict)
    state_at: float | None = None
    marks: Mapping[str, str] = field(default_factory=dict)  # vertex id -> down | drained
    used: Mapping[str, int] = field(default_factory=dict)  # vertex id -> units its manager reports as taken
    rules: Mapping[str, object] = field(default_factory=dict)  # who may use it, and for how much
    record: Mapping[str, float] = field(default_factory=dict)  # how good its bids were
    drain_reason: str = ""
    version: int = 0
    node_rules: NodeRules | None = None  # None: no agent ever spoke for it, and nodes are not enforced there
    wrong_nodes: int = 0  # how often its manager gave a job other nodes than the offer allowed

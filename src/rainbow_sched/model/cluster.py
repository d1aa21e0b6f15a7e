"""A registered cluster: its name, its standing and its reported state."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rainbow_sched.model.binding import NodeRules
from rainbow_sched.model.errors import Invalid, TooLarge

MAX_STATE_KEYS = 1_000  # keys, and entries of a list; bounds what an agent can store
MAX_STATE_TEXT_CHARS = 4_096  # bounds what an agent can store
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")


class Standing(enum.StrEnum):
    """Whether a cluster accepts new jobs, and why not."""

    ACTIVE = "active"
    DRAINING = "draining"  # no new jobs; running jobs continue
    DEGRADED = "degraded"  # circuit breaker open after consecutive failures; one trial job at a time
    UNREACHABLE = "unreachable"  # its agent is silent
    LEAVING = "leaving"  # no new jobs; removed when the running jobs have ended
    REMOVED = "removed"


def cluster_name(text: str) -> str:
    """Return `text` if it is a valid cluster name; raise `Invalid`."""
    if not _NAME.fullmatch(text):
        raise Invalid(
            f"{text[:40]!r} cannot be a cluster's name: use 1 to 128 letters, digits, dots, dashes or underscores, "
            "beginning and ending with a letter or digit"
        )
    return text


def checked_state(values: Mapping[str, object]) -> dict[str, object]:
    """Return the state if it can be stored (scalars, finite numbers, flat lists); raise `Invalid` or `TooLarge`."""
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
        if len(value) > MAX_STATE_TEXT_CHARS:
            raise TooLarge(f"a text has at most {MAX_STATE_TEXT_CHARS} characters", where=where)
    elif isinstance(value, list) and len(value) <= MAX_STATE_KEYS:
        for item in value:
            if isinstance(item, list | dict):
                raise Invalid("a list in a state must hold plain values only", where=where)
            _check_value(key, item)
    else:
        raise Invalid("a state value must be a number, a text, true, false, null or a flat list of these", where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One registered cluster as stored, without its graphs."""

    id: int  # never reused: a name that is deleted and registered again gets a new id
    name: str
    standing: Standing = Standing.ACTIVE
    manager: str = ""  # local, slurm, flux; empty: no agent has reported it
    registered_at: float = 0.0
    seen_at: float | None = None  # last contact of its agent or receiver
    state: Mapping[str, object] = field(default_factory=dict)
    state_at: float | None = None
    marks: Mapping[str, str] = field(default_factory=dict)  # vertex id -> down | drained
    used: Mapping[str, int] = field(default_factory=dict)  # vertex id -> units that its manager reports as used
    rules: Mapping[str, object] = field(default_factory=dict)  # see `ClusterRules`
    record: Mapping[str, float] = field(default_factory=dict)  # see `TrackRecord`
    drain_reason: str = ""
    version: int = 0
    node_rules: NodeRules | None = None  # None: no agent has ever connected, and nodes are not enforced
    wrong_nodes: int = 0  # how often its manager allocated nodes that the offer did not allow

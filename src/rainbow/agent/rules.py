"""What the site lets its agent take: whose jobs, and which, by an expression over what they ask for. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rainbow.agent.values import Offer
from rainbow.model.request import Level, Request
from rainbow.scheduler.expressions import EvaluationError, Expression, MissingVariable

Value: TypeAlias = str | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The cluster keeps its say: whatever the server offers, only what these allow is taken."""

    accept: Expression | None = None
    allow: frozenset[str] | None = None  # None: everybody

    def refuses(self, offer: Offer, request: Request) -> str | None:
        """Why the offer is handed back, or None."""
        owner = offer.owner.removeprefix("user:")
        if self.allow is not None and owner not in self.allow:
            return f"this site runs no jobs of {owner or 'nobody'}"
        if self.accept is None:
            return None
        try:
            holds = self.accept(variables(offer, request))
        except MissingVariable as missing:
            return f"this site takes only jobs with {self.accept.text}; the job says nothing of that ({missing})"
        except EvaluationError as problem:
            return f"this site takes only jobs with {self.accept.text}, which cannot be told of this one: {problem}"
        return None if holds is True else f"this site takes only jobs with {self.accept.text}"


def variables(offer: Offer, request: Request) -> dict[str, Value]:
    """What an accept expression can speak of. A job without a time limit has no `duration`."""
    counts = asked(request)
    found: dict[str, Value] = {
        "nodes": float(max(1, counts.get("node", 0))),
        "cores": float(counts.get("core", 0)),
        "gpus": float(counts.get("gpu", 0)),
        "owner": offer.owner.removeprefix("user:"),
        "name": offer.name or request.name,
        "priority": float(offer.priority),
    }
    if request.duration is not None:
        found["duration"] = request.duration
    for key, value in _labels(offer.terms).items():
        found[f"labels.{key}"] = str(value)
    return found


def asked(request: Request) -> dict[str, int]:
    """How many of each type a request asks for at least, counts multiplied down."""
    counts: dict[str, int] = {}

    def walk(level: Level, times: int) -> None:
        times *= level.count.min
        counts[level.type] = counts.get(level.type, 0) + times
        for inner in level.inside:
            walk(inner, times)

    for group in request.groups:
        for level in group.levels:
            walk(level, 1)
    return counts


def _labels(terms: str) -> Mapping[str, object]:
    try:
        labels = json.loads(terms).get("labels", {})
    except (ValueError, AttributeError):
        return {}
    return labels if isinstance(labels, dict) else {}

"""What the site lets its agent take: whose jobs, and which, by an expression over what they ask for. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rainbow.agent.values import Offer
from rainbow.model.candidate import Demand
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
        if self.allow is not None and self.allow.isdisjoint((offer.owner, offer.owner.removeprefix("user:"))):
            return f"this site runs no jobs of {offer.owner or 'nobody'}"
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
    """What an accept expression can speak of, the same as on the server. Without a time limit `duration` is 0."""
    demand = Demand.of(request)
    gpus = sum(_gpus(level, 1) for group in request.groups for level in group.levels)
    found: dict[str, Value] = {
        "nodes": float(demand.nodes),
        "cores": float(demand.cores),
        "gpus": float(gpus),
        "duration": float(request.duration or 0.0),
        "owner": offer.owner,
        "name": offer.name,
        "priority": float(offer.priority),
    }
    for key, value in _labels(offer.terms).items():
        found[f"labels.{key}"] = str(value)
    return found


def _gpus(level: Level, above: int) -> int:
    count = above * level.count.min
    own = count if level.type == "gpu" and not level.inside else 0
    return own + sum(_gpus(inner, count) for inner in level.inside)


def _labels(terms: str) -> Mapping[str, object]:
    try:
        labels = json.loads(terms).get("labels", {})
    except (ValueError, AttributeError):
        return {}
    return labels if isinstance(labels, dict) else {}

"""Site rules of an agent: users whose jobs it runs, and the `--accept` filter."""

from __future__ import annotations

from dataclasses import dataclass

from rainbow_sched.model.errors import Invalid
from rainbow_sched.model.hints import did_you_mean
from rainbow_sched.model.request import Request
from rainbow_sched.protocol.messages import Offer, parsed_terms
from rainbow_sched.selection.expressions import EvaluationError, Expression, MissingVariable, compile_expression
from rainbow_sched.selection.job_filter import holds, variables

JOB_VARIABLES = ("nodes", "cores", "gpus", "duration", "owner", "name", "priority")


def job_expression(option: str, text: str) -> Expression:
    """Compile `--accept` or `--order`; raise Invalid for an unknown job variable."""
    found = compile_expression(text)
    for name in sorted(found.names):
        if name not in JOB_VARIABLES and not name.startswith("labels."):
            hint = did_you_mean(name, (*JOB_VARIABLES, "labels.KEY"))
            raise Invalid(f"{option}: jobs have no variable {name!r}{hint}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """Rules for offers, checked on the cluster whatever the server sends."""

    accept: Expression | None = None
    allow: frozenset[str] | None = None  # None: all users

    def refuses(self, offer: Offer, request: Request) -> str | None:
        """Return why the offer is rejected, or None."""
        if self.allow is not None and self.allow.isdisjoint((offer.owner, offer.owner.removeprefix("user:"))):
            return f"this site runs no jobs of {offer.owner or 'an unknown user'}"
        if self.accept is None:
            return None
        try:
            labels = parsed_terms(offer.terms).get("labels")
            job = variables(
                request,
                owner=offer.owner,
                name=offer.name,
                priority=offer.priority,
                labels=labels if isinstance(labels, dict) else {},
            )
            taken = holds(self.accept, job)
        except MissingVariable as missing:
            return f"this site takes only jobs with {self.accept.text}; the job does not give it ({missing})"
        except EvaluationError as problem:
            return (
                f"this site takes only jobs with {self.accept.text}, which cannot be evaluated for this one: {problem}"
            )
        return None if taken else f"this site takes only jobs with {self.accept.text}"

"""Retry policy for errors of the server: pause, or give up."""

from __future__ import annotations

from rainbow_sched.model.errors import Conflict, Denied, Exhausted, Invalid, RainbowError, Unauthenticated

TRIES_AT_START = 3  # refusals before the first answer after which the credential is wrong
WHERE_IT_COMES_FROM = (
    "the agent's secret comes from --secret-file, RAINBOW_AGENT_SECRET, its state directory or the config, in this "
    "order: put the cluster's current secret there, or delete the cluster and register it again"
)
SLOWLY = 30.0
CONFLICT_PATIENCE = 10.0  # seconds; the call of a killed agent may still be open on the server


class Refusals:
    """Count consecutive refusals. The clock is passed in."""

    def __init__(self) -> None:
        self._ever = False
        self._denied = 0
        self._conflict_since: float | None = None

    def answered(self) -> None:
        """Reset the counters."""
        self._ever, self._denied, self._conflict_since = True, 0, None

    def pause(self, problem: RainbowError, now: float) -> float | None:
        """Return the seconds until the next try, None for the usual backoff; raise `problem` if a retry is useless."""
        if isinstance(problem, Unauthenticated | Denied):
            self._denied += 1
            if not self._ever:
                if self._denied >= TRIES_AT_START:
                    raise type(problem)(f"{problem}; {WHERE_IT_COMES_FROM}")
                return 1.0
            return SLOWLY
        if isinstance(problem, Conflict):
            if self._conflict_since is None:
                self._conflict_since = now
            if now - self._conflict_since >= CONFLICT_PATIENCE:
                raise problem
            return 2.0
        if isinstance(problem, Exhausted):
            return problem.retry_after
        if isinstance(problem, Invalid):
            return SLOWLY / 6
        return None

"""Retry policy for errors of the server: pause, or give up."""

from __future__ import annotations

from rainbow_sched.model.errors import Conflict, Denied, Exhausted, Invalid, RainbowError, Unauthenticated

MAX_INITIAL_REFUSALS = 3  # refusals before the first answer after which the credential is wrong
SECRET_SOURCES = (
    "the agent's secret comes from --secret-file, RAINBOW_AGENT_SECRET, its state directory or the config, in this "
    "order: put the cluster's current secret there, or delete the cluster and register it again"
)
SLOW_RETRY_SECONDS = 30.0
CONFLICT_TIMEOUT_SECONDS = 10.0  # seconds; the call of a killed agent may still be open on the server


class Refusals:
    """Count consecutive refusals. The clock is passed in."""

    def __init__(self) -> None:
        self._was_answered = False
        self._denied = 0
        self._conflict_since: float | None = None

    def answered(self) -> None:
        """Reset the counters."""
        self._was_answered, self._denied, self._conflict_since = True, 0, None

    def pause(self, problem: RainbowError, now: float) -> float | None:
        """Return the seconds until the next try, None for the usual backoff; raise `problem` if a retry is useless."""
        if isinstance(problem, Unauthenticated | Denied):
            self._denied += 1
            if not self._was_answered:
                if self._denied >= MAX_INITIAL_REFUSALS:
                    raise type(problem)(f"{problem}; {SECRET_SOURCES}")
                return 1.0
            return SLOW_RETRY_SECONDS
        if isinstance(problem, Conflict):
            if self._conflict_since is None:
                self._conflict_since = now
            if now - self._conflict_since >= CONFLICT_TIMEOUT_SECONDS:
                raise problem
            return 2.0
        if isinstance(problem, Exhausted):
            return problem.retry_after
        if isinstance(problem, Invalid):
            return SLOW_RETRY_SECONDS / 6
        return None

"""Every error that Rainbow raises on purpose, one class per kind of answer.

Branch on the class, never on the text. The server maps each class to one gRPC status
(`server/status.py`), the command line maps each status to one exit code.
"""

from __future__ import annotations


class RainbowError(Exception):
    """Something Rainbow refuses or cannot do; the message says what is wrong and what would be right."""


class Invalid(RainbowError):
    """The input is malformed or breaks a rule; sending it again unchanged cannot help."""

    def __init__(self, message: str, *, where: str = "") -> None:
        """`where` is the line, path or vertex at fault; it leads the message."""
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where
        self.what = message


class TooLarge(Invalid):
    """The input is over a limit that protects the server."""


class NotFound(RainbowError):
    """There is no such thing, or the caller may not see it."""


class AlreadyExists(RainbowError):
    """The name is taken."""


class Conflict(RainbowError):
    """The thing has moved on: no arrow leads from its state, or somebody else was first."""


class Impossible(RainbowError):
    """No cluster could ever run this."""


class Unauthenticated(RainbowError):
    """Who are you? The credential is missing, unknown, expired or revoked."""


class Denied(RainbowError):
    """The credential is good, but it does not reach this far."""


class Exhausted(RainbowError):
    """A limit on rate, size or number is reached; try again after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Unavailable(RainbowError):
    """Not reachable or not ready now; the same call may succeed later."""


class Unconfirmed(Unavailable):
    """It may be stored or not: the answer of the store was lost."""


class Corrupt(RainbowError):
    """What was stored does not hash to what was written; it is refused, never used."""


class Unsupported(RainbowError):
    """A graph backend or manager backend cannot do this; the message says what it lacks."""
